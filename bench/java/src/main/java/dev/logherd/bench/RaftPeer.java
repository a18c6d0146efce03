package dev.logherd.bench;

import com.alibaba.fastjson.JSONObject;
import com.alipay.sofa.jraft.Closure;
import com.alipay.sofa.jraft.Iterator;
import com.alipay.sofa.jraft.Node;
import com.alipay.sofa.jraft.RaftGroupService;
import com.alipay.sofa.jraft.conf.Configuration;
import com.alipay.sofa.jraft.core.StateMachineAdapter;
import com.alipay.sofa.jraft.entity.PeerId;
import com.alipay.sofa.jraft.entity.Task;
import com.alipay.sofa.jraft.option.NodeOptions;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A member of a SOFAJRaft group, with the library's own settings, that proposes to itself when it is asked to: what the
 * log takes from inside its leader, without a client. The state machine looks at nothing.
 *
 * <p>One question a connection, each a line of JSON: {"what": "leads"} or {"what": "run", "window", "size", "warmupMs",
 * "measureMs"}.
 */
public final class RaftPeer {
    private static final String GROUP = "bench";

    private RaftPeer() {
    }

    /** Tells each proposal that it is applied. */
    private static final class Applied extends StateMachineAdapter {
        @Override
        public void onApply(Iterator entries) {
            while (entries.hasNext()) {
                Closure done = entries.done();
                if (done != null) {
                    done.run(com.alipay.sofa.jraft.Status.OK());
                }
                entries.next();
            }
        }
    }

    public static void main(String[] args) throws Exception {
        String address = args[0];
        Path directory = Files.createDirectories(Path.of(args[2]));
        Configuration peers = new Configuration();
        if (!peers.parse(args[1])) {
            throw new IllegalArgumentException("no list of members: " + args[1]);
        }
        NodeOptions options = new NodeOptions();
        options.setInitialConf(peers);
        options.setFsm(new Applied());
        options.setLogUri(directory.resolve("log").toString());
        options.setRaftMetaUri(directory.resolve("meta").toString());
        options.setDisableCli(true);
        PeerId self = PeerId.parsePeer(address);
        Node node = new RaftGroupService(GROUP, self, options).start();
        try (ServerSocket asked = new ServerSocket(Integer.parseInt(args[3]), 8, InetAddress.getLoopbackAddress())) {
            while (true) {
                try (Socket link = asked.accept()) {
                    BufferedReader lines = new BufferedReader(
                            new InputStreamReader(link.getInputStream(), StandardCharsets.UTF_8));
                    JSONObject question = JSONObject.parseObject(lines.readLine());
                    JSONObject answer = "run".equals(question.getString("what")) ? run(node, question) : leads(node);
                    OutputStream out = link.getOutputStream();
                    out.write((answer + "\n").getBytes(StandardCharsets.UTF_8));
                    out.flush();
                }
            }
        }
    }

    private static JSONObject leads(Node node) {
        JSONObject answer = new JSONObject();
        answer.put("leads", node.isLeader());
        return answer;
    }

    private static JSONObject run(Node node, JSONObject asked) throws InterruptedException {
        int window = asked.getIntValue("window");
        byte[] body = new byte[asked.getIntValue("size")];
        ThreadLocalRandom.current().nextBytes(body);
        long begin = System.nanoTime() + asked.getLongValue("warmupMs") * 1_000_000;
        long end = begin + asked.getLongValue("measureMs") * 1_000_000;
        Latencies latencies = new Latencies();
        AtomicLong failures = new AtomicLong();
        Semaphore free = new Semaphore(window);
        while (System.nanoTime() < end) {
            free.acquire();
            long proposedAt = System.nanoTime();
            node.apply(new Task(ByteBuffer.wrap(body), status -> {
                long now = System.nanoTime();
                if (!status.isOk()) {
                    failures.incrementAndGet();
                } else if (now >= begin && now < end) {
                    latencies.add(now - proposedAt);
                }
                free.release();
            }));
        }
        free.acquire(window);
        JSONObject answer = new JSONObject();
        answer.put("rate", latencies.count() * 1e9 / (end - begin));
        answer.put("p50us", latencies.micros(0.5));
        answer.put("p99us", latencies.micros(0.99));
        answer.put("p999us", latencies.micros(0.999));
        answer.put("maxus", latencies.longestMicros());
        answer.put("failures", failures.get());
        return answer;
    }
}
