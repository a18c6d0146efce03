package dev.logherd.compat;

import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingConnectException;
import org.apache.rocketmq.remoting.exception.RemotingSendRequestException;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** Every way a stock consumer can receive; what arrived is kept until the test asks for it. */
final class Consumers {
    private static final Map<String, Open> OPEN = new ConcurrentHashMap<>();

    private Consumers() {
    }

    /** One running consumer with what it received, in the order in which the listener saw it. */
    private static final class Open {
        final List<Map<String, Object>> received = new ArrayList<>();
        final List<Object[]> arrivals = new ArrayList<>();
        boolean brief;
        DefaultMQPushConsumer push;
        DefaultLitePullConsumer lite;

        synchronized void take(List<MessageExt> messages) {
            if (brief) {
                long now = System.currentTimeMillis() * 1000;
                messages.forEach(message -> arrivals.add(new Object[]{new String(message.getBody()), now}));
                return;
            }
            try {
                for (MessageExt message : messages) {
                    Map<String, Object> seen = Messages.describe(message);
                    seen.put("thread", Thread.currentThread().getName());
                    received.add(seen);
                }
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
            notifyAll();
        }

        synchronized List<Object[]> taken() {
            List<Object[]> taken = new ArrayList<>(arrivals);
            arrivals.clear();
            return taken;
        }

        synchronized List<Object> await(int count, long millis) throws InterruptedException {
            long deadline = System.nanoTime() + millis * 1_000_000;
            for (long left = millis; received.size() < count && left > 0;
                 left = (deadline - System.nanoTime()) / 1_000_000) {
                wait(left);
            }
            return new ArrayList<>(received);
        }
    }

    static void addTo(Driver driver) {
        driver.add("consumer.push", Consumers::push);
        driver.add("consumer.lite", Consumers::lite);
        driver.add("consumer.assign", Consumers::assign);
        // Of a consumer that was started as brief: each body, and when it came, in microseconds.
        driver.add("consumer.arrivals", args -> get(args).taken());
        driver.add("consumer.received",
            args -> get(args).await(args.getIntValue("count"), args.getLongValue("timeoutMs")));
        driver.add("consumer.poll", Consumers::poll);
        driver.add("consumer.commit", args -> {
            get(args).lite.commitSync();
            return true;
        });
        driver.add("consumer.stop", Consumers::stop);
    }

    private static Open get(JSONObject args) {
        Open open = OPEN.get(args.getString("name"));
        if (open == null) {
            throw new IllegalArgumentException("no consumer " + args.getString("name"));
        }
        return open;
    }

    private static ConsumeFromWhere from(JSONObject args) {
        return "last".equals(args.getString("from"))
            ? ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET : ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET;
    }

    private static Object push(JSONObject args) throws Exception {
        Open open = new Open();
        open.brief = args.getBooleanValue("brief");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args.getString("group"));
        consumer.setNamesrvAddr(args.getString("nameServer"));
        consumer.setInstanceName(args.getString("name") + "-" + System.nanoTime());
        consumer.setConsumeFromWhere(from(args));
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        if (args.getBooleanValue("broadcast")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        String expression = args.getString("expression");
        consumer.subscribe(args.getString("topic"), expression == null ? "*" : expression);
        if (args.getBooleanValue("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                open.take(messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                open.take(messages);
                // A refused message goes back to the broker, which is asked to deliver it again later.
                return args.getBooleanValue("refuse")
                    ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        open.push = consumer;
        OPEN.put(args.getString("name"), open);
        return consumer.buildMQClientId();
    }

    private static DefaultLitePullConsumer newLite(JSONObject args) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(args.getString("group"));
        consumer.setNamesrvAddr(args.getString("nameServer"));
        consumer.setInstanceName(args.getString("name") + "-" + System.nanoTime());
        consumer.setConsumeFromWhere(from(args));
        consumer.setAutoCommit(false);
        return consumer;
    }

    private static Object lite(JSONObject args) throws Exception {
        Open open = new Open();
        open.lite = newLite(args);
        String expression = args.getString("expression");
        open.lite.subscribe(args.getString("topic"), expression == null ? "*" : expression);
        open.lite.start();
        OPEN.put(args.getString("name"), open);
        return open.lite.buildMQClientId();
    }

    /** A lite pull consumer that reads given queues from their first message, without any group coordination. */
    private static Object assign(JSONObject args) throws Exception {
        Open open = new Open();
        open.lite = newLite(args);
        open.lite.start();
        OPEN.put(args.getString("name"), open);
        List<MessageQueue> queues = new ArrayList<>(open.lite.fetchMessageQueues(args.getString("topic")));
        open.lite.assign(queues);
        Map<String, Object> assigned = new LinkedHashMap<>();
        for (MessageQueue queue : queues) {
            seekToBegin(open.lite, queue);
            assigned.put(String.valueOf(queue.getQueueId()), queue.getBrokerName());
        }
        return assigned;
    }

    /**
     * A seek interrupts the thread that pulls this queue. If that is about to send just then, the client closes the
     * connection that all its threads share, and whatever another one has asked there fails, the next seek too.
     */
    private static void seekToBegin(DefaultLitePullConsumer consumer, MessageQueue queue) throws Exception {
        for (int left = 9; ; left--) {
            try {
                consumer.seekToBegin(queue);
                return;
            } catch (MQClientException error) {
                Throwable cause = error.getCause();
                boolean closed = cause instanceof RemotingSendRequestException || cause instanceof RemotingConnectException;
                if (left == 0 || !closed) {
                    throw error;
                }
            }
        }
    }

    private static Object poll(JSONObject args) throws Exception {
        Open open = get(args);
        int count = args.getIntValue("count");
        long deadline = System.nanoTime() + args.getLongValue("timeoutMs") * 1_000_000;
        while (open.received.size() < count && System.nanoTime() < deadline) {
            open.take(open.lite.poll(200));
        }
        return new ArrayList<>(open.received);
    }

    /** Whether the client has taken note that every message it holds was consumed; that follows the listener's return. */
    private static boolean idle(DefaultMQPushConsumer consumer) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().values().stream()
            .allMatch(held -> held.getMsgCount().get() == 0);
    }

    private static Object stop(JSONObject args) throws InterruptedException {
        Open open = OPEN.remove(args.getString("name"));
        if (open.push != null) {
            // Without this the end could commit too little, and the next member rightly receives messages again.
            for (int i = 0; i < 200 && !idle(open.push); i++) {
                Thread.sleep(10);
            }
            open.push.shutdown();
        } else {
            open.lite.shutdown();
        }
        return true;
    }
}
