package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
import java.util.function.Function;
import org.apache.curator.framework.CuratorFramework;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * A lock of Java as a contestant of the benchmark: the tasks of verification/bench/README.md, as JSON lines, one after the other. The first
 * argument is the kind of Redisson's lock, or `curator`. All settings are the library's own. Ends when stdin does.
 */
public final class Contestant {
    private final String kind;
    private Function<String, Lock> locks;

    private Contestant(String kind) {
        this.kind = kind;
    }

    public static void main(String[] args) throws Exception {
        AtomicInteger strayErrors = new AtomicInteger();
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> strayErrors.incrementAndGet());
        Contestant contestant = new Contestant(args[0]);
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            Map<String, Object> answer = new HashMap<>(contestant.answer(new Order(Json.read(line))));
            answer.put("strayErrors", strayErrors.get());
            out.println(Json.write(answer));
        }
        System.exit(0);
    }

    private Map<String, ?> answer(Order task) {
        try {
            return perform(task);
        } catch (Exception error) {
            return Map.of("error", error.toString());
        }
    }

    private Map<String, ?> perform(Order task) throws Exception {
        String what = task.text("task", "");
        return switch (what) {
            case "open" -> open(task.text("url", ""));
            case "turns" -> new Turns(locks, task).run();
            case "hops" -> Hops.run(locks.apply(task.text("key", "")), task);
            case "hold" -> Holding.hold(locks, task);
            case "idle" -> Holding.idle(task);
            default -> throw new IllegalArgumentException("no such task: " + what);
        };
    }

    private Map<String, ?> open(String url) throws InterruptedException {
        locks = kind.equals("curator") ? curator(url) : redisson(url);
        return Map.of();
    }

    private Function<String, Lock> redisson(String url) {
        Config config = new Config();
        config.useSingleServer().setAddress(url);
        RedissonClient client = Redisson.create(config);
        return key -> Locks.of(client, kind, key);
    }

    private static Function<String, Lock> curator(String url) throws InterruptedException {
        CuratorFramework client = CuratorLock.connect(url.replace("zookeeper://", ""));
        return key -> CuratorLock.of(client, key);
    }
}
