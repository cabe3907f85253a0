package ruslo.conformance;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;

import org.apache.kafka.common.TopicPartition;

/** A node of Ruslo: its property file, its directories and its process. */
final class RusloNode {
    private static final int CONNECT_TIMEOUT_MS = 1_000;
    private static final long STOP_TIMEOUT_NS = 120_000_000_000L;
    private static final int LAST_LOG_LINES = 5;

    final int id;
    final boolean isBroker;
    final boolean isController;
    final Map<String, String> properties;
    /** Ports by the name of their listener. */
    final Map<String, Integer> ports;
    private final Path home;
    private ProcessHandle process;

    RusloNode(int id, Path home, Map<String, String> properties, Map<String, Integer> ports) {
        Set<String> roles = Set.of(properties.get("process.roles").split(","));
        this.id = id;
        this.isBroker = roles.contains("broker");
        this.isController = roles.contains("controller");
        this.home = home;
        this.properties = properties;
        this.ports = ports;
    }

    /** Write the property file and format the log directories. */
    void format(String clusterId, List<String> options) {
        Properties file = new Properties();
        file.putAll(properties);
        try (OutputStream out = Files.newOutputStream(propertyFile())) {
            file.store(out, null);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        List<String> arguments = new ArrayList<>(
            List.of("storage", "format", "-c", propertyFile().toString(), "--cluster-id", clusterId));
        arguments.addAll(options);
        if (NodeForker.run(logFile(), arguments) != 0) {
            throw new IllegalStateException("ruslo " + String.join(" ", arguments) + " failed: " + lastLogLines());
        }
    }

    synchronized void start() {
        if (!isRunning()) {
            process = NodeForker.start(logFile(), List.of("serve", "-c", propertyFile().toString()))
                .orElseThrow(this::ended);
        }
    }

    /** End the process by a controlled shutdown. */
    synchronized void stop() {
        if (process != null) {
            process.destroy();
            if (!hasEnded()) {
                kill();
            }
        }
    }

    synchronized void kill() {
        if (process != null) {
            process.destroyForcibly();
            hasEnded();
        }
    }

    /** Polls: Java notices the end of a process that it did not start itself only after 300 ms. */
    private boolean hasEnded() {
        long deadline = System.nanoTime() + STOP_TIMEOUT_NS;
        while (process.isAlive() && System.nanoTime() < deadline) {
            Wait.pause();
        }
        return !process.isAlive();
    }

    synchronized boolean isRunning() {
        return process != null && process.isAlive();
    }

    /** Whether all listeners accept connections. */
    boolean isListening() {
        if (!isRunning()) {
            throw ended();
        }
        for (int port : ports.values()) {
            try (Socket socket = new Socket()) {
                socket.connect(new InetSocketAddress("localhost", port), CONNECT_TIMEOUT_MS);
            } catch (IOException e) {
                return false;
            }
        }
        return true;
    }

    List<String> logDirs() {
        Set<String> dirs = new LinkedHashSet<>(List.of(properties.get("log.dirs").split(",")));
        dirs.add(properties.get("metadata.log.dir"));
        return List.copyOf(dirs);
    }

    boolean hasLogDirectory(TopicPartition tp) {
        return logDirs().stream().anyMatch(dir -> Files.exists(Path.of(dir, tp.toString())));
    }

    private Path propertyFile() {
        return home.resolve("node-" + id + ".properties");
    }

    private Path logFile() {
        return home.resolve("node-" + id + ".log");
    }

    private IllegalStateException ended() {
        return new IllegalStateException("The process of node " + id + " ended: " + lastLogLines());
    }

    private String lastLogLines() {
        try {
            List<String> lines = Files.readAllLines(logFile());
            return String.join("\n", lines.subList(Math.max(0, lines.size() - LAST_LOG_LINES), lines.size()));
        } catch (IOException e) {
            return "no log: " + e;
        }
    }
}
