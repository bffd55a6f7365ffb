package interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.Map;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Orders for both kinds of semaphores: plain counters, and permits with ids and leases. */
final class Permits {
    private final RedissonClient redisson;

    Permits(RedissonClient redisson) {
        this.redisson = redisson;
    }

    Map<String, ?> carryOut(Order order) throws InterruptedException {
        RSemaphore counting = redisson.getSemaphore(order.name());
        RPermitExpirableSemaphore leased = redisson.getPermitExpirableSemaphore(order.name());
        int count = (int) order.number("permits", 1);
        long waitMs = order.number("waitMs", 0);
        return switch (order.what()) {
            case "setPermits" -> Map.of("changed", counting.trySetPermits(count));
            case "takePermits" -> Map.of("held", counting.tryAcquire(count, waitMs, MILLISECONDS));
            case "givePermits" -> {
                counting.release(count);
                yield Map.of();
            }
            case "countPermits" -> Map.of("permits", counting.availablePermits());
            case "setLeasedPermits" -> Map.of("changed", leased.trySetPermits(count));
            case "takeLeasedPermit" -> {
                String permit = leased.tryAcquire(waitMs, order.number("leaseMs", -1), MILLISECONDS);
                yield permit == null ? Map.of("held", false) : Map.of("held", true, "permit", permit);
            }
            case "giveLeasedPermit" -> Map.of("outcome", leased.tryRelease(order.text("permit", "")) ? "released" : "lost");
            case "countLeasedPermits" -> Map.of("permits", leased.availablePermits());
            default -> throw new IllegalArgumentException("no such order: " + order.what());
        };
    }
}
