package dev.logherd.bench;

import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.LongAccumulator;

/**
 * Latencies in a log-linear histogram: 64 steps for each power of two, so that any percentile is within 1.6 % of the
 * truth, in 16 KiB and without a lock.
 */
final class Latencies {
    private static final int STEP_BITS = 6;
    private static final int STEPS = 1 << STEP_BITS;
    private final AtomicLongArray counts = new AtomicLongArray((66 - STEP_BITS) * STEPS);
    private final LongAccumulator longest = new LongAccumulator(Math::max, 0);

    void add(long nanos) {
        counts.incrementAndGet(slot(nanos));
        longest.accumulate(nanos);
    }

    long count() {
        long total = 0;
        for (int i = 0; i < counts.length(); i++) {
            total += counts.get(i);
        }
        return total;
    }

    /** Upper end of the step in which this share of the latencies ends, in microseconds. */
    double micros(double share) {
        long wanted = (long) Math.ceil(count() * share);
        long seen = 0;
        for (int i = 0; i < counts.length(); i++) {
            seen += counts.get(i);
            if (seen >= wanted && seen > 0) {
                return end(i) / 1000.0;
            }
        }
        return 0;
    }

    double longestMicros() {
        return longest.get() / 1000.0;
    }

    private static int slot(long nanos) {
        int shift = Math.max(0, 63 - Long.numberOfLeadingZeros(Math.max(1, nanos)) - STEP_BITS);
        return shift * STEPS + (int) (nanos >>> shift);
    }

    private static long end(int slot) {
        int shift = Math.max(0, slot / STEPS - 1);
        return (slot - (long) shift * STEPS + 1) << shift;
    }
}
