// What xxl-job-core calls these things until 3.2.

import com.xxl.job.core.context.XxlJobContext;
import com.xxl.job.core.executor.XxlJobExecutor;
import com.xxl.job.core.handler.IJobHandler;

final class Version {
    static void offer(String name, IJobHandler handler) {
        XxlJobExecutor.registJobHandler(name, handler);
    }

    static String logFileName() {
        return XxlJobContext.getXxlJobContext().getJobLogFileName();
    }
}
