// What xxl-job-core calls these things from 3.3 on.

import com.xxl.job.core.context.XxlJobContext;
import com.xxl.job.core.executor.XxlJobExecutor;
import com.xxl.job.core.handler.IJobHandler;

final class Version {
    static void offer(String name, IJobHandler handler) {
        XxlJobExecutor.registryJobHandler(name, handler);
    }

    static String logFileName() {
        return XxlJobContext.getXxlJobContext().getLogFileName();
    }
}
