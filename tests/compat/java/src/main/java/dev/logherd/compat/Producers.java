package dev.logherd.compat;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Every way a stock producer can send. */
final class Producers {
    private static final Map<String, DefaultMQProducer> OPEN = new ConcurrentHashMap<>();

    private Producers() {
    }

    static void addTo(Driver driver) {
        driver.add("producer.start", Producers::start);
        driver.add("producer.send", Producers::send);
        driver.add("producer.createTopic", args -> {
            get(args).createTopic("TBW102", args.getString("topic"), args.getIntValue("queues"), Map.of());
            return true;
        });
        driver.add("producer.stop", args -> {
            OPEN.remove(args.getString("name")).shutdown();
            return true;
        });
    }

    private static DefaultMQProducer get(JSONObject args) {
        DefaultMQProducer producer = OPEN.get(args.getString("name"));
        if (producer == null) {
            throw new IllegalArgumentException("no producer " + args.getString("name"));
        }
        return producer;
    }

    private static Object start(JSONObject args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(args.getString("group"));
        producer.setNamesrvAddr(args.getString("nameServer"));
        // Clients of one instance name share a connection table; each of ours may speak to another cluster.
        producer.setInstanceName(args.getString("name") + "-" + System.nanoTime());
        if (args.containsKey("compressOver")) {
            producer.setCompressMsgBodyOverHowmuch(args.getIntValue("compressOver"));
        }
        if (args.containsKey("maxMessageSize")) {
            producer.setMaxMessageSize(args.getIntValue("maxMessageSize"));
        }
        if (args.containsKey("queues")) {
            producer.setDefaultTopicQueueNums(args.getIntValue("queues"));
        }
        producer.setRetryTimesWhenSendFailed(args.getIntValue("retries"));
        producer.setSendMsgTimeout(args.containsKey("timeoutMs") ? args.getIntValue("timeoutMs") : 10_000);
        producer.start();
        OPEN.put(args.getString("name"), producer);
        return producer.buildMQClientId();
    }

    private static Object send(JSONObject args) throws Exception {
        DefaultMQProducer producer = get(args);
        List<Message> messages = Messages.parse(args.getString("topic"), args.getJSONArray("messages"));
        switch (args.getString("mode")) {
            case "sync":
                return sync(producer, messages, args);
            case "async":
                return async(producer, messages, args);
            case "oneway":
                for (Message message : messages) {
                    producer.sendOneway(message);
                }
                return List.of();
            case "batch":
                return List.of(Messages.describe(producer.send(messages)));
            case "ordered":
                return ordered(producer, messages, args.getJSONArray("messages"));
            default:
                throw new IllegalArgumentException("no such mode: " + args.getString("mode"));
        }
    }

    private static Object sync(DefaultMQProducer producer, List<Message> messages, JSONObject args) throws Exception {
        List<Object> results = new ArrayList<>();
        for (Message message : messages) {
            SendResult result = args.containsKey("queueId")
                ? producer.send(message, queue(producer, args))
                : producer.send(message);
            results.add(Messages.describe(result));
        }
        return results;
    }

    private static MessageQueue queue(DefaultMQProducer producer, JSONObject args) throws Exception {
        for (MessageQueue queue : producer.fetchPublishMessageQueues(args.getString("topic"))) {
            if (queue.getQueueId() == args.getIntValue("queueId")) {
                return queue;
            }
        }
        throw new IllegalArgumentException("no queue " + args.getIntValue("queueId"));
    }

    private static Object ordered(DefaultMQProducer producer, List<Message> messages, JSONArray specs)
        throws Exception {
        List<Object> results = new ArrayList<>();
        for (int i = 0; i < messages.size(); i++) {
            int shard = specs.getJSONObject(i).getIntValue("shard");
            results.add(Messages.describe(producer.send(messages.get(i),
                (queues, message, key) -> queues.get((Integer) key % queues.size()), shard)));
        }
        return results;
    }

    private static Object async(DefaultMQProducer producer, List<Message> messages, JSONObject args)
        throws Exception {
        Object[] results = new Object[messages.size()];
        CountDownLatch open = new CountDownLatch(results.length);
        for (int i = 0; i < results.length; i++) {
            int at = i;
            producer.send(messages.get(i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    results[at] = Messages.describe(result);
                    open.countDown();
                }

                @Override
                public void onException(Throwable failure) {
                    Map<String, Object> error = new LinkedHashMap<>();
                    error.put("status", "EXCEPTION");
                    error.put("error", Driver.describe(failure));
                    results[at] = error;
                    open.countDown();
                }
            });
        }
        if (!open.await(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException(open.getCount() + " sends without an answer after 30 s");
        }
        return Arrays.asList(results);
    }
}
