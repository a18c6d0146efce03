package dev.logherd.compat;

import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageQueue;

/** Queries, offsets and whole-topic reads through the client's plain pull consumer. */
final class Queries {
    private static final Map<String, DefaultMQPullConsumer> OPEN = new ConcurrentHashMap<>();

    private Queries() {
    }

    static void addTo(Driver driver) {
        driver.add("query.key", args -> {
            QueryResult found = client(args).queryMessage(args.getString("topic"), args.getString("key"), 32,
                0, Long.MAX_VALUE);
            return Messages.describeAll(found.getMessageList());
        });
        driver.add("query.id",
            args -> Messages.describe(client(args).viewMessage(args.getString("topic"), args.getString("msgId"))));
        driver.add("query.offset", args -> {
            PullResult pulled = client(args).pull(queue(args), "*", args.getLongValue("offset"), 1);
            return describe(pulled);
        });
        driver.add("query.pull", args -> describe(client(args).pull(queue(args),
            args.getString("expression"), args.getLongValue("offset"), args.getIntValue("count"))));
        driver.add("query.offsets", Queries::offsets);
        driver.add("query.byTime",
            args -> client(args).searchOffset(queue(args), args.getLongValue("timestamp")));
        driver.add("query.readAll", Queries::readAll);
        driver.add("offset.commit", args -> {
            DefaultMQPullConsumer consumer = client(args);
            consumer.getDefaultMQPullConsumerImpl().getOffsetStore()
                .updateConsumeOffsetToBroker(queue(args), args.getLongValue("offset"), false);
            return true;
        });
        driver.add("offset.fetch", args -> client(args).fetchConsumeOffset(queue(args), true));
        driver.add("query.stop", args -> {
            for (String key : new ArrayList<>(OPEN.keySet())) {
                OPEN.remove(key).shutdown();
            }
            return true;
        });
    }

    private static DefaultMQPullConsumer client(JSONObject args) throws Exception {
        String group = args.containsKey("group") ? args.getString("group") : "compat-reader";
        String key = args.getString("nameServer") + "/" + group;
        DefaultMQPullConsumer consumer = OPEN.get(key);
        if (consumer == null) {
            consumer = new DefaultMQPullConsumer(group);
            consumer.setNamesrvAddr(args.getString("nameServer"));
            consumer.setInstanceName("query-" + System.nanoTime());
            consumer.start();
            OPEN.put(key, consumer);
        }
        return consumer;
    }

    private static MessageQueue queue(JSONObject args) throws Exception {
        for (MessageQueue queue : client(args).fetchSubscribeMessageQueues(args.getString("topic"))) {
            if (queue.getQueueId() == args.getIntValue("queueId")) {
                return queue;
            }
        }
        throw new IllegalArgumentException("no queue " + args.getIntValue("queueId"));
    }

    private static Object describe(PullResult pulled) throws Exception {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("status", pulled.getPullStatus().name());
        out.put("next", pulled.getNextBeginOffset());
        out.put("min", pulled.getMinOffset());
        out.put("max", pulled.getMaxOffset());
        out.put("messages", pulled.getMsgFoundList() == null
            ? List.of() : Messages.describeAll(pulled.getMsgFoundList()));
        return out;
    }

    private static Object offsets(JSONObject args) throws Exception {
        DefaultMQPullConsumer consumer = client(args);
        Map<String, Object> out = new TreeMap<>();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(args.getString("topic"))) {
            Map<String, Object> ends = new LinkedHashMap<>();
            ends.put("min", consumer.minOffset(queue));
            ends.put("max", consumer.maxOffset(queue));
            ends.put("earliest", consumer.earliestMsgStoreTime(queue));
            out.put(String.valueOf(queue.getQueueId()), ends);
        }
        return out;
    }

    /** Every message of a topic, queue by queue in offset order. */
    private static Object readAll(JSONObject args) throws Exception {
        DefaultMQPullConsumer consumer = client(args);
        Map<Integer, Object> out = new TreeMap<>();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(args.getString("topic"))) {
            List<Object> messages = new ArrayList<>();
            long offset = consumer.minOffset(queue);
            long end = consumer.maxOffset(queue);
            while (offset < end) {
                PullResult pulled = consumer.pull(queue, "*", offset, 32);
                if (pulled.getPullStatus() != PullStatus.FOUND) {
                    throw new IllegalStateException("queue " + queue + " at " + offset + " of " + end + ": "
                        + pulled.getPullStatus());
                }
                messages.addAll(Messages.describeAll(pulled.getMsgFoundList()));
                offset = pulled.getNextBeginOffset();
            }
            out.put(queue.getQueueId(), messages);
        }
        Map<String, Object> named = new LinkedHashMap<>();
        out.forEach((id, messages) -> named.put(String.valueOf(id), messages));
        return named;
    }
}
