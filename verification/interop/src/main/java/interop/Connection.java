package interop;

import org.redisson.config.Config;
import org.redisson.config.ShardedSubscriptionMode;

/** How to reach Redis, from the first argument of the program. */
final class Connection {
    private static final int THREADS = 4;

    private Connection() {}

    static Config config(Order how) {
        Config config = new Config().setThreads(THREADS).setNettyThreads(THREADS);
        config.setLockWatchdogTimeout(how.number("watchdogTimeoutMs", 30_000));
        config.setFairLockWaitTimeout(how.number("fairWaitMs", 300_000));
        if (how.has("nodes")) {
            config.useClusterServers()
                    .addNodeAddress(how.texts("nodes").toArray(String[]::new))
                    .setMasterConnectionMinimumIdleSize(4)
                    .setSlaveConnectionMinimumIdleSize(4)
                    .setShardedSubscriptionMode(ShardedSubscriptionMode.valueOf(how.text("sharded", "AUTO")));
        } else {
            config.useSingleServer().setAddress(how.text("url", "")).setConnectionMinimumIdleSize(4);
        }
        return config;
    }
}
