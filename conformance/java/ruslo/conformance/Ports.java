package ruslo.conformance;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;

/** Ports of this JVM, below the range from which the kernel takes ports for outgoing connections. */
final class Ports {
    private static final int FIRST = Integer.getInteger("conformance.first.port", 24000);
    private static final int COUNT = Integer.getInteger("conformance.ports", 1000);

    private static int last;

    private Ports() { }

    static synchronized int free() {
        for (int attempt = 0; attempt < COUNT; attempt++) {
            int port = FIRST + last++ % COUNT;
            try (ServerSocket socket = new ServerSocket()) {
                socket.setReuseAddress(true);
                socket.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
                return port;
            } catch (IOException inUse) {
                continue;
            }
        }
        throw new IllegalStateException("All ports from " + FIRST + " to " + (FIRST + COUNT - 1) + " are in use");
    }
}
