package interop;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.time.Instant;
import java.time.temporal.ChronoUnit;

/** Times in ms, with fractions, and CPU in µs. */
final class Times {
    private static final OperatingSystemMXBean SYSTEM =
            ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);

    private Times() {}

    /** Since the epoch: comparable with other processes of the same machine. */
    static double nowMs() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now()) / 1e3;
    }

    /** By the monotonic clock, which on Linux is that of the machine and not of this process. */
    static double monotonicMs() {
        return System.nanoTime() / 1e6;
    }

    /** @param startedAt of {@link System#nanoTime()} */
    static double sinceMs(long startedAt) {
        return (System.nanoTime() - startedAt) / 1e6;
    }

    /** The CPU of all threads of this process, those of the compiler and the garbage collector included. */
    static long cpuUs() {
        return SYSTEM.getProcessCpuTime() / 1000;
    }
}
