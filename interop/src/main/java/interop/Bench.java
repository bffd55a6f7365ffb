package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * Measures lock and unlock inside this JVM: no order and no answer is in the figures.
 *
 * Scenarios: "serial" locks a fresh name each time, in one thread; "hot1" has all threads on one name; "hop" is hot1
 * for one thread, to be run in two processes at once, so that the lock goes back and forth between them.
 */
final class Bench {
    private final RedissonClient redisson;
    private final Order order;
    private volatile double startAtMs;

    Bench(RedissonClient redisson, Order order) {
        this.redisson = redisson;
        this.order = order;
    }

    Map<String, ?> run() throws Exception {
        int threads = order.text("scenario", "serial").equals("hot1") ? (int) order.number("threads", 1) : 1;
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            long warmUpMs = order.number("warmUpMs", 0);
            startAtMs = Math.max(order.number("startAtMs", 0), Times.nowMs()) + warmUpMs;
            List<Future<List<Double>>> running = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                String prefix = order.name() + ":" + i + ":";
                running.add(pool.submit(() -> takeTurns(prefix)));
            }
            List<Double> waits = new ArrayList<>();
            List<Integer> perThread = new ArrayList<>();
            for (Future<List<Double>> done : running) {
                waits.addAll(done.get());
                perThread.add(done.get().size());
            }
            return figures(waits, perThread);
        } finally {
            pool.shutdownNow();
        }
    }

    /** @return the waits of those turns that began in the measured time */
    private List<Double> takeTurns(String prefix) throws InterruptedException {
        boolean isSerial = order.text("scenario", "serial").equals("serial");
        long holdMs = order.number("holdMs", 0);
        List<Double> waits = new ArrayList<>();
        double endAtMs = startAtMs + order.number("forMs", 1000);
        long notBeforeMs = order.number("startAtMs", 0);
        if (Times.nowMs() < notBeforeMs) Thread.sleep((long) (notBeforeMs - Times.nowMs()));
        for (long turn = 0; ; turn++) {
            double nowMs = Times.nowMs();
            if (nowMs >= endAtMs) return waits;
            RLock lock = redisson.getLock(isSerial ? prefix + turn : order.name());
            long askedAt = System.nanoTime();
            lock.lock();
            if (nowMs >= startAtMs) waits.add(Times.sinceMs(askedAt));
            if (holdMs > 0) Thread.sleep(holdMs);
            lock.unlock();
        }
    }

    private Map<String, ?> figures(List<Double> waits, List<Integer> perThread) {
        Collections.sort(waits);
        Map<String, Object> figures = new TreeMap<>();
        figures.put("count", waits.size());
        figures.put("perSecond", waits.size() * 1000.0 / order.number("forMs", 1000));
        figures.put("perThread", perThread);
        for (int percent : new int[] {50, 90, 99, 100}) {
            int index = Math.max(0, (int) Math.ceil(waits.size() * percent / 100.0) - 1);
            figures.put("waitP" + percent + "Ms", waits.isEmpty() ? 0 : waits.get(index));
        }
        return figures;
    }
}
