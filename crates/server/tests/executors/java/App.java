// An executor made with xxl-job-core, which is XXL-JOB's own.

import com.google.gson.Gson;
import com.xxl.job.core.context.XxlJobHelper;
import com.xxl.job.core.executor.XxlJobExecutor;
import com.xxl.job.core.handler.IJobHandler;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.Map;

public final class App {
    interface Work {
        String on(String params) throws Exception;
    }

    private static final Gson JSON = new Gson();

    public static void main(String[] args) throws Exception {
        offer("ok", params -> "did " + params);
        offer("fail", params -> {
            throw new IllegalStateException("cannot do " + params);
        });
        offer("sleep", params -> {
            Thread.sleep((long) (Double.parseDouble(params) * 1000));
            return "slept " + params;
        });
        offer("chatty", params -> {
            int count = Integer.parseInt(params);
            for (int number = 1; number <= count; number++) {
                XxlJobHelper.log("line {} of {}", number, count);
                Thread.sleep(100);
            }
            return "said " + count;
        });
        offer("crash", params -> {
            Runtime.getRuntime().halt(3);
            return "";
        });
        XxlJobExecutor executor = new XxlJobExecutor();
        executor.setAdminAddresses(System.getenv("ADMIN"));
        executor.setAppname(System.getenv("APP"));
        executor.setAccessToken(System.getenv("TOKEN"));
        executor.setIp(System.getenv("HOST"));
        executor.setPort(Integer.parseInt(System.getenv("PORT")));
        executor.setLogPath(System.getenv("LOGS"));
        executor.setLogRetentionDays(3);
        executor.start();
        Runtime.getRuntime().addShutdownHook(new Thread(executor::destroy));
        Thread.currentThread().join();
    }

    private static void offer(String name, Work work) {
        Version.offer(name, new IJobHandler() {
            @Override
            public void execute() throws Exception {
                String params = XxlJobHelper.getJobParam();
                record(name, params);
                XxlJobHelper.handleSuccess(work.on(params));
            }
        });
    }

    private static void record(String name, String params) throws Exception {
        String shard = XxlJobHelper.getShardIndex() + "/" + XxlJobHelper.getShardTotal();
        // A handler is not told which run it is for. The name of its log says so.
        Path log = Path.of(Version.logFileName());
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("handler", name);
        line.put("logId", Long.parseLong(log.getFileName().toString().replace(".log", "")));
        line.put("jobId", XxlJobHelper.getJobId());
        line.put("params", params);
        line.put("shard", shard);
        line.put("at", System.currentTimeMillis());
        String text = JSON.toJson(line) + "\n";
        Files.writeString(
                Path.of(System.getenv("RECORD")), text, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        XxlJobHelper.log("params {}, shard {}", params, shard);
    }
}
