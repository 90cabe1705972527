import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.TimeZone;
import org.quartz.CronExpression;

/** Asks Quartz. Same protocol as run_python.py. */
public class RunQuartz {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] part = line.split("\t");
            try {
                CronExpression cron = new CronExpression(part[1]);
                cron.setTimeZone(TimeZone.getTimeZone(part[2]));
                Date t = Date.from(Instant.parse(part[3]));
                List<String> answers = new ArrayList<>();
                for (int i = Integer.parseInt(part[4]); i > 0; i--) {
                    t = cron.getNextValidTimeAfter(t);
                    answers.add(t.toInstant().toString());
                }
                System.out.println(String.join(",", answers));
            } catch (Exception e) {
                System.out.println("!" + e.getClass().getSimpleName());
            }
        }
    }
}
