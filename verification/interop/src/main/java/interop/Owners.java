package interop;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Real threads by number. Each is an owner of its own, and carries out its orders one after the other. */
final class Owners {
    private final Map<Integer, ExecutorService> threads = new ConcurrentHashMap<>();

    void run(int number, Runnable task) {
        threads.computeIfAbsent(number, ignored -> Executors.newSingleThreadExecutor()).execute(task);
    }
}
