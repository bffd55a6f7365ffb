package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;

/**
 * A Java service with Redisson, by remote control: orders come as JSON lines on stdin, answers leave as JSON lines on
 * stdout (see README.md). It ends when stdin does, so that it never outlives the process that started it.
 */
public final class Main {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private Main() {}

    public static void main(String[] args) throws Exception {
        RedissonClient redisson = Redisson.create(Connection.config(new Order(Json.read(args[0]))));
        Orders orders = new Orders(redisson);
        Owners owners = new Owners();
        say(Map.of("ready", true, "clientId", redisson.getId()));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            Order order = new Order(Json.read(line));
            if (order.what().equals("close")) {
                redisson.shutdown();
                say(Map.of("id", order.id()));
                break;
            }
            owners.run(order.thread(), () -> say(answer(orders, order)));
        }
        System.exit(0);
    }

    private static Map<String, Object> answer(Orders orders, Order order) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", order.id());
        try {
            answer.putAll(orders.carryOut(order));
            answer.put("atMs", Times.nowMs());
        } catch (Exception error) {
            answer.put("error", error.toString());
        }
        return answer;
    }

    private static void say(Map<String, Object> answer) {
        synchronized (OUT) {
            OUT.println(Json.write(answer));
        }
    }
}
