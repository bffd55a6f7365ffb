package interop;

import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** The lock that an order names, by its kind. */
final class Locks {
    private Locks() {}

    static RLock of(RedissonClient redisson, Order order) {
        return of(redisson, order.text("kind", "lock"), order.name());
    }

    static RLock of(RedissonClient redisson, String kind, String name) {
        return switch (kind) {
            case "lock" -> redisson.getLock(name);
            case "fenced" -> redisson.getFencedLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "spin" -> redisson.getSpinLock(name);
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            default -> throw new IllegalArgumentException("no kind of lock: " + kind);
        };
    }
}
