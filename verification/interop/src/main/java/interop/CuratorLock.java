package interop;

import java.nio.charset.StandardCharsets;
import java.net.URLEncoder;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's `InterProcessMutex` as a lock of Java. Only what the benchmark calls is there. */
final class CuratorLock implements Lock {
    private final InterProcessMutex mutex;

    private CuratorLock(InterProcessMutex mutex) {
        this.mutex = mutex;
    }

    /** Connects with Curator's own settings, and the retries of its "Getting Started". */
    static CuratorFramework connect(String address) throws InterruptedException {
        CuratorFramework client = CuratorFrameworkFactory.newClient(address, new ExponentialBackoffRetry(1000, 3));
        client.start();
        client.blockUntilConnected();
        return client;
    }

    static Lock of(CuratorFramework client, String key) {
        String name = URLEncoder.encode(key, StandardCharsets.UTF_8);
        return new CuratorLock(new InterProcessMutex(client, "/curator/" + name));
    }

    @Override
    public void lock() {
        try {
            mutex.acquire();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void unlock() {
        try {
            mutex.release();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void lockInterruptibly() {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean tryLock() {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) {
        throw new UnsupportedOperationException();
    }

    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException();
    }
}
