package ruslo.conformance;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.StreamSupport;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.message.DescribeQuorumResponseData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.SaslAuthenticateRequestData;
import org.apache.kafka.common.message.SaslHandshakeRequestData;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.DescribeAclsRequest;
import org.apache.kafka.common.requests.DescribeAclsResponse;
import org.apache.kafka.common.requests.DescribeQuorumRequest;
import org.apache.kafka.common.requests.DescribeQuorumResponse;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.SaslAuthenticateRequest;
import org.apache.kafka.common.requests.SaslAuthenticateResponse;
import org.apache.kafka.common.requests.SaslHandshakeRequest;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.common.utils.Utils;

/** Requests to one node, each over its own connection. An Admin client would choose the node itself. */
final class NodeRequests {
    private static final int TIMEOUT_MS = 10_000;
    private static final short METADATA_VERSION = 12;
    private static final short QUORUM_VERSION = 2;
    private static final short ACLS_VERSION = 3;

    private final boolean saslOfBrokers;
    private final boolean saslOfControllers;

    /** The parameters tell which listeners demand a log-in with PLAIN. */
    NodeRequests(boolean saslOfBrokers, boolean saslOfControllers) {
        this.saslOfBrokers = saslOfBrokers;
        this.saslOfControllers = saslOfControllers;
    }

    MetadataResponseData brokers(int port) throws IOException {
        return metadata(port, new MetadataRequest.Builder(List.of(), false));
    }

    MetadataResponseData topic(int port, String name) throws IOException {
        return metadata(port, new MetadataRequest.Builder(List.of(name), false));
    }

    MetadataResponseData allTopics(int port) throws IOException {
        return metadata(port, MetadataRequest.Builder.allTopics());
    }

    private MetadataResponseData metadata(int port, MetadataRequest.Builder request) throws IOException {
        return ((MetadataResponse) send(port, saslOfBrokers, request.build(METADATA_VERSION))).data();
    }

    DescribeQuorumResponseData.PartitionData quorum(int port) throws IOException {
        DescribeQuorumRequest request = new DescribeQuorumRequest.Builder(
            DescribeQuorumRequest.singletonRequest(new TopicPartition("__cluster_metadata", 0))).build(QUORUM_VERSION);
        DescribeQuorumResponse response = (DescribeQuorumResponse) send(port, saslOfControllers, request);
        return response.data().topics().get(0).partitions().get(0);
    }

    List<AclBinding> acls(int port, AclBindingFilter filter) throws IOException {
        DescribeAclsRequest request = new DescribeAclsRequest.Builder(filter).build(ACLS_VERSION);
        DescribeAclsResponse response = (DescribeAclsResponse) send(port, saslOfBrokers, request);
        if (response.error().isFailure()) {
            throw new IOException("DescribeAcls failed: " + response.error().messageWithFallback());
        }
        return StreamSupport.stream(DescribeAclsResponse.aclBindings(response.acls()).spliterator(), false).toList();
    }

    private static AbstractResponse send(int port, boolean sasl, AbstractRequest request) throws IOException {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress("localhost", port), TIMEOUT_MS);
            socket.setSoTimeout(TIMEOUT_MS);
            if (sasl) {
                logIn(socket);
            }
            return exchange(socket, request);
        }
    }

    private static void logIn(Socket socket) throws IOException {
        exchange(socket, new SaslHandshakeRequest.Builder(
            new SaslHandshakeRequestData().setMechanism("PLAIN")).build((short) 1));
        String token = "\0" + JaasUtils.KAFKA_PLAIN_ADMIN + "\0" + JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD;
        SaslAuthenticateResponse response = (SaslAuthenticateResponse) exchange(socket, new SaslAuthenticateRequest.Builder(
            new SaslAuthenticateRequestData().setAuthBytes(token.getBytes(StandardCharsets.UTF_8))).build((short) 2));
        if (response.data().errorCode() != 0) {
            throw new IOException("Log-in failed: " + response.data().errorMessage());
        }
    }

    private static AbstractResponse exchange(Socket socket, AbstractRequest request) throws IOException {
        RequestHeader header = new RequestHeader(request.apiKey(), request.version(), "conformance", 1);
        byte[] frame = Utils.toArray(request.serializeWithHeader(header));
        DataOutputStream out = new DataOutputStream(socket.getOutputStream());
        out.writeInt(frame.length);
        out.write(frame);
        out.flush();
        DataInputStream in = new DataInputStream(socket.getInputStream());
        byte[] response = new byte[in.readInt()];
        in.readFully(response);
        return AbstractResponse.parseResponse(ByteBuffer.wrap(response), header);
    }
}
