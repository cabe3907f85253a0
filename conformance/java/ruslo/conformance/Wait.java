package ruslo.conformance;

import java.util.concurrent.Callable;

import org.opentest4j.AssertionFailedError;

/** Waits until a condition holds that only requests can check. */
final class Wait {
    private static final long TIMEOUT_NS = 180_000_000_000L;
    private static final long INTERVAL_MS = 20;

    private Wait() { }

    /** An IllegalStateException of the condition ends the wait; other exceptions mean that it does not hold yet. */
    static void until(String fact, Callable<Boolean> condition) {
        long deadline = System.nanoTime() + TIMEOUT_NS;
        Exception last = null;
        do {
            try {
                if (condition.call()) {
                    return;
                }
            } catch (IllegalStateException e) {
                throw e;
            } catch (Exception e) {
                last = e;
            }
            pause();
        } while (System.nanoTime() < deadline);
        throw new AssertionFailedError("Not within " + TIMEOUT_NS / 1_000_000_000 + " s: " + fact, last);
    }

    static void pause() {
        try {
            Thread.sleep(INTERVAL_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }
}
