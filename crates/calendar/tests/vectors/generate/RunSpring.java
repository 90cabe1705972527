import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.List;
import org.springframework.scheduling.support.CronExpression;

/** Asks Spring's CronExpression. Same protocol as run_python.py. */
public class RunSpring {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] part = line.split("\t");
            try {
                CronExpression cron = CronExpression.parse(part[1]);
                ZonedDateTime t = Instant.parse(part[3]).atZone(ZoneId.of(part[2]));
                List<String> answers = new ArrayList<>();
                for (int i = Integer.parseInt(part[4]); i > 0; i--) {
                    t = cron.next(t);
                    answers.add(t.toInstant().toString());
                }
                System.out.println(String.join(",", answers));
            } catch (Exception e) {
                System.out.println("!" + e.getClass().getSimpleName());
            }
        }
    }
}
