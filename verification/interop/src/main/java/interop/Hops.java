package interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.Lock;

/** As verification/bench/src/worker/hops.mjs: one caller that records when it held the lock, while another process does the same. */
final class Hops {
    private Hops() {}

    static Map<String, ?> run(Lock lock, Order task) throws InterruptedException {
        List<List<Double>> stays = new ArrayList<>();
        int failed = 0;
        long endsAt = System.nanoTime() + MILLISECONDS.toNanos(task.number("ms", 0));
        while (System.nanoTime() < endsAt) {
            try {
                lock.lock();
                double fromMs = Times.monotonicMs();
                Thread.sleep(task.number("holdMs", 0));
                stays.add(List.of(fromMs, Times.monotonicMs()));
                lock.unlock();
            } catch (RuntimeException error) {
                failed++;
            }
        }
        return Map.of("stays", stays, "failed", failed);
    }
}
