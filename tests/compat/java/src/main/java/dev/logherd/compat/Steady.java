package dev.logherd.compat;

import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * A producer as an application has it: default settings, a few threads that send at an even pace and wait for each
 * answer. Every send is kept with its outcome; a thread that was held up does not send faster afterwards.
 */
final class Steady {
    /** By name, which is also what bodies begin with. */
    private static final Map<String, Steady> RUNNING = new ConcurrentHashMap<>();

    /** Microseconds since 1970, from a clock that is not set while we run. */
    private static final long BASE_MICROS = System.currentTimeMillis() * 1000 - System.nanoTime() / 1000;

    private final DefaultMQProducer producer;
    private final String topic;
    private final String name;
    private final List<Thread> threads = new ArrayList<>();
    private final List<List<Object>> sends = new ArrayList<>();
    private volatile boolean over;

    private Steady(JSONObject args) throws Exception {
        topic = args.getString("topic");
        name = args.getString("name");
        producer = new DefaultMQProducer(args.getString("group"));
        producer.setNamesrvAddr(args.getString("nameServer"));
        producer.start();
        int count = args.getIntValue("threads");
        long paceNanos = 1_000_000_000L * count / args.getIntValue("perSecond");
        for (int i = 0; i < count; i++) {
            int number = i;
            Thread thread = new Thread(() -> run(number, paceNanos), "steady-" + i);
            threads.add(thread);
            thread.start();
        }
    }

    static void addTo(Driver driver) {
        driver.add("steady.start", args -> {
            RUNNING.put(args.getString("name"), new Steady(args));
            return true;
        });
        driver.add("steady.take", args -> RUNNING.get(args.getString("name")).take());
        driver.add("steady.stop", args -> {
            Steady last = RUNNING.remove(args.getString("name"));
            last.over = true;
            for (Thread thread : last.threads) {
                thread.join();
            }
            last.producer.shutdown();
            return last.take();
        });
    }

    private static long micros() {
        return BASE_MICROS + System.nanoTime() / 1000;
    }

    /** What has ended since it was last asked for. */
    private List<Object> take() {
        synchronized (sends) {
            List<Object> taken = new ArrayList<>(sends);
            sends.clear();
            return taken;
        }
    }

    private void run(int number, long paceNanos) {
        long next = System.nanoTime();
        for (int i = 0; !over; i++) {
            String value = name + "-" + number + "-" + i;
            Message message = new Message(topic, value.getBytes(StandardCharsets.UTF_8));
            long invoked = micros();
            List<Object> row = new ArrayList<>(List.of(value, invoked));
            try {
                describe(row, producer.send(message));
            } catch (Exception failure) {
                row.add(micros());
                row.add(described(failure));
            }
            synchronized (sends) {
                sends.add(row);
            }
            next = Math.max(next + paceNanos, System.nanoTime());
            LockSupport.parkNanos(next - System.nanoTime());
        }
    }

    /** With what lies behind it: the client wraps what a broker said. */
    private static String described(Throwable failure) {
        StringBuilder text = new StringBuilder();
        for (Throwable each = failure; each != null; each = each.getCause()) {
            String words = String.valueOf(each.getMessage()).strip().lines().findFirst().orElse("");
            text.append(text.length() > 0 ? "; " : "").append(each.getClass().getSimpleName() + ": " + words);
        }
        return text.toString();
    }

    /** When it was answered, "" or what is not right, and where it is. */
    private static void describe(List<Object> row, SendResult result) {
        row.add(micros());
        row.add(result.getSendStatus() == SendStatus.SEND_OK ? "" : result.getSendStatus().name());
        row.add(result.getMessageQueue().getQueueId());
        row.add(result.getQueueOffset());
    }
}
