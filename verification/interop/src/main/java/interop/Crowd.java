package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * Threads that take locks of given names at random until a point in time. They write each step into one list in Redis,
 * which so has the order of all steps: "enter" or "leave", who, name, token, kind. The kind of a lock is that of the order, or the
 * last part of its name: a "fair" one, or a "rw" one, which is read or written at random.
 */
final class Crowd {
    private final RedissonClient redisson;
    private final Order order;

    Crowd(RedissonClient redisson, Order order) {
        this.redisson = redisson;
        this.order = order;
    }

    Map<String, ?> run() throws Exception {
        int threads = (int) order.number("threads", 1);
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Future<Map<String, Object>>> running = new ArrayList<>();
            for (int i = 1; i <= threads; i++) {
                String who = order.text("who", "java") + "." + i;
                running.add(pool.submit(() -> takeTurns(who)));
            }
            List<Map<String, Object>> threadsDone = new ArrayList<>();
            for (Future<Map<String, Object>> done : running) threadsDone.add(done.get());
            return Map.of("threads", threadsDone);
        } finally {
            pool.shutdownNow();
        }
    }

    private Map<String, Object> takeTurns(String who) throws InterruptedException {
        long turns = 0;
        while (Times.nowMs() < order.number("untilMs", 0)) {
            List<String> names = order.texts("names");
            String name = names.get(ThreadLocalRandom.current().nextInt(names.size()));
            String kind = kindOf(name);
            RLock lock = Locks.of(redisson, kind, name);
            lock.lock();
            String token = lock instanceof RFencedLock fenced ? String.valueOf(fenced.getToken()) : "-";
            write("enter", who, name, token, kind);
            Thread.sleep(order.number("holdMs", 1));
            write("leave", who, name, token, kind);
            lock.unlock();
            turns++;
        }
        return Map.of("who", who, "turns", turns);
    }

    private String kindOf(String name) {
        if (name.endsWith(":fair")) return "fair";
        if (name.endsWith(":rw")) return ThreadLocalRandom.current().nextInt(3) > 0 ? "read" : "write";
        return order.text("kind", "fenced");
    }

    private void write(String... words) {
        redisson.getList(order.text("history", "history"), StringCodec.INSTANCE)
                .add(String.join(" ", words));
    }
}
