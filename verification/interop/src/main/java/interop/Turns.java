package interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.Lock;
import java.util.function.Function;
import java.util.stream.IntStream;

/** As verification/bench/src/worker/turns.mjs, with a thread for each caller, since the owner of a lock in Java is a thread. */
final class Turns {
    private static final ExecutorService THREADS = Executors.newCachedThreadPool();

    private final Function<String, Lock> locks;
    private final List<String> keys;
    private final long ms;
    private final long workMs;
    private final long graceMs;
    private final int[] perCaller;
    /** When a waiting caller has asked, by {@link System#nanoTime()}; otherwise 0. */
    private final long[] askedAt;
    private final Histogram waits = new Histogram();
    private final Map<String, Integer> failures = new HashMap<>();
    private int acquired;
    private double usedMs;
    private long endsAt;

    Turns(Function<String, Lock> locks, Order task) {
        this.locks = locks;
        keys = task.texts("keys");
        ms = task.number("ms", 0);
        workMs = task.number("workMs", 0);
        graceMs = task.number("graceMs", 0);
        int callers = (int) task.number("callers", 1);
        perCaller = new int[callers];
        askedAt = new long[callers];
    }

    /** Answers at the latest `graceMs` after the time is up. A caller that still waits then finishes uncounted. */
    Map<String, ?> run() throws InterruptedException {
        CountDownLatch running = new CountDownLatch(perCaller.length);
        long cpuUsBefore = Times.cpuUs();
        endsAt = System.nanoTime() + MILLISECONDS.toNanos(ms);
        for (int i = 0; i < perCaller.length; i++) {
            int caller = i;
            THREADS.execute(() -> {
                takeTurns(caller);
                running.countDown();
            });
        }
        running.await(ms + graceMs, MILLISECONDS);
        return figures(Times.cpuUs() - cpuUsBefore);
    }

    private void takeTurns(int caller) {
        String key = keys.get(caller % keys.size());
        while (System.nanoTime() < endsAt) {
            ask(caller);
            try {
                Lock lock = locks.apply(key);
                lock.lock();
                try {
                    stay(enter(caller));
                } finally {
                    lock.unlock();
                }
            } catch (Exception error) {
                fail(caller, error);
            }
        }
    }

    private synchronized void ask(int caller) {
        askedAt[caller] = System.nanoTime();
    }

    private synchronized long enter(int caller) {
        long at = System.nanoTime();
        waits.add((at - askedAt[caller]) / 1e6);
        askedAt[caller] = 0;
        acquired++;
        if (at < endsAt) perCaller[caller]++;
        return at;
    }

    private void stay(long enteredAt) throws InterruptedException {
        if (workMs == 0) return;
        Thread.sleep(workMs);
        synchronized (this) {
            usedMs += Math.max(0, Math.min(System.nanoTime(), endsAt) - enteredAt) / 1e6;
        }
    }

    private synchronized void fail(int caller, Exception error) {
        askedAt[caller] = 0;
        failures.merge(error.getClass().getSimpleName(), 1, Integer::sum);
    }

    private synchronized Map<String, ?> figures(long cpuUs) {
        long[] waiting = IntStream.range(0, askedAt.length).mapToLong(i -> askedAt[i]).filter(at -> at > 0).toArray();
        for (long at : waiting) waits.add(Times.sinceMs(at));
        return Map.of(
                "acquired", acquired,
                "perCaller", IntStream.of(perCaller).boxed().toList(),
                "ms", ms,
                "usedMs", usedMs,
                "cpuUs", cpuUs,
                "waits", waits.toJson(),
                "failures", Map.copyOf(failures),
                "unfinished", waiting.length);
    }
}
