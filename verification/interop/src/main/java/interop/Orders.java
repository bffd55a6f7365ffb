package interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Carries out each order, in the thread that it names. */
final class Orders {
    private final RedissonClient redisson;
    private final Permits permits;

    Orders(RedissonClient redisson) {
        this.redisson = redisson;
        this.permits = new Permits(redisson);
    }

    Map<String, ?> carryOut(Order order) throws Exception {
        return switch (order.what()) {
            case "lock" -> timed(() -> lock(order));
            case "tryLock" -> timed(() -> tryLock(order));
            case "unlock" -> Map.of("outcome", unlock(order));
            case "hold" -> hold(order);
            case "forceUnlock" -> Map.of("freed", Locks.of(redisson, order).forceUnlock());
            case "state" -> state(Locks.of(redisson, order));
            case "crowd" -> new Crowd(redisson, order).run();
            default -> timed(() -> permits.carryOut(order));
        };
    }

    private Map<String, ?> lock(Order order) {
        RLock lock = Locks.of(redisson, order);
        long leaseMs = order.number("leaseMs", -1);
        if (lock instanceof RFencedLock fenced && leaseMs < 0) return held(fenced.lockAndGetToken());
        lock.lock(leaseMs, MILLISECONDS);
        return held(null);
    }

    private Map<String, ?> tryLock(Order order) throws InterruptedException {
        RLock lock = Locks.of(redisson, order);
        long waitMs = order.number("waitMs", 0);
        long leaseMs = order.number("leaseMs", -1);
        if (lock instanceof RFencedLock fenced) {
            Long token = fenced.tryLockAndGetToken(waitMs, leaseMs, MILLISECONDS);
            return token == null ? Map.of("held", false) : held(token);
        }
        return lock.tryLock(waitMs, leaseMs, MILLISECONDS) ? held(null) : Map.of("held", false);
    }

    private Map<String, ?> held(Long token) {
        String owner = redisson.getId() + ":" + Thread.currentThread().getId();
        return token == null ? Map.of("held", true, "owner", owner) : Map.of("held", true, "owner", owner, "token", token);
    }

    private String unlock(Order order) {
        try {
            Locks.of(redisson, order).unlock();
            return "released";
        } catch (IllegalMonitorStateException notHeld) {
            return "lost";
        }
    }

    /** Locks, sleeps and unlocks by one order. The answer's waitedMs is the wait alone. */
    private Map<String, ?> hold(Order order) throws Exception {
        Map<String, Object> answer = new HashMap<>(timed(() -> lock(order)));
        Thread.sleep(order.number("holdMs", 0));
        answer.put("outcome", unlock(order));
        return answer;
    }

    private static Map<String, ?> state(RLock lock) {
        Map<String, Object> state = new HashMap<>();
        state.put("locked", lock.isLocked());
        state.put("mine", lock.isHeldByCurrentThread());
        state.put("holds", lock.getHoldCount());
        state.put("remainingMs", lock.remainTimeToLive());
        if (lock instanceof RFencedLock fenced) state.put("token", fenced.getToken());
        return state;
    }

    private static Map<String, Object> timed(Callable<Map<String, ?>> work) throws Exception {
        long startedAt = System.nanoTime();
        Map<String, Object> answer = new HashMap<>(work.call());
        answer.put("waitedMs", Times.sinceMs(startedAt));
        return answer;
    }
}
