package interop;

import java.time.Instant;
import java.time.temporal.ChronoUnit;

/** Times in ms, with fractions. */
final class Times {
    private Times() {}

    /** Since the epoch: comparable with other processes of the same machine. */
    static double nowMs() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now()) / 1e3;
    }

    /** @param startedAt of {@link System#nanoTime()} */
    static double sinceMs(long startedAt) {
        return (System.nanoTime() - startedAt) / 1e6;
    }
}
