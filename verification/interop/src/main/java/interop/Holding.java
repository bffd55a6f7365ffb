package interop;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.Lock;
import java.util.function.Function;

/** As verification/bench/src/worker/holding.mjs: locks that are kept, and the work of the idle process. */
final class Holding {
    private static final List<Lock> HELD = new ArrayList<>();

    private Holding() {}

    static Map<String, ?> hold(Function<String, Lock> locks, Order task) {
        long count = task.number("count", 0);
        long before = heapBytes();
        for (long i = 0; i < count; i++) {
            Lock lock = locks.apply(task.text("prefix", "") + i);
            lock.lock();
            HELD.add(lock);
        }
        return Map.of("bytesEach", (heapBytes() - before) / (double) count);
    }

    static Map<String, ?> idle(Order task) throws InterruptedException {
        long cpuUsBefore = Times.cpuUs();
        long startedAt = System.nanoTime();
        Thread.sleep(task.number("ms", 0));
        return Map.of("cpuUs", Times.cpuUs() - cpuUsBefore, "ms", Times.sinceMs(startedAt));
    }

    /** The heap in use after a full collection. */
    private static long heapBytes() {
        System.gc();
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }
}
