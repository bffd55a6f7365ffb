package interop;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Counts how often each duration was seen, in the buckets of verification/bench/src/measure/histogram.mjs, which grow by 1 %. */
final class Histogram {
    private static final double GROWTH = Math.log(1.01);

    private final Map<Long, Integer> counts = new TreeMap<>();
    private double maxMs;

    void add(double ms) {
        counts.merge(Math.round(Math.log(Math.max(ms, 0.001)) / GROWTH), 1, Integer::sum);
        maxMs = Math.max(maxMs, ms);
    }

    Map<String, ?> toJson() {
        List<List<Number>> pairs = counts.entrySet().stream()
                .map(entry -> List.<Number>of(entry.getKey(), entry.getValue()))
                .toList();
        return Map.of("counts", pairs, "maxMs", maxMs);
    }
}
