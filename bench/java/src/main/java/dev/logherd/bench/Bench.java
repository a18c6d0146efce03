package dev.logherd.bench;

import com.alibaba.fastjson.JSONObject;
import dev.logherd.compat.Driver;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** Load from the unmodified client: one producer or consumer object, as an application would have it. */
public final class Bench {
    private Bench() {
    }

    /** What one producing run counts; only what is answered between `begin` and `end` is measured. */
    private static final class Run {
        final Latencies latencies = new Latencies();
        final AtomicLong failures = new AtomicLong();
        final AtomicLong notStored = new AtomicLong();
        final String topic;
        final byte[] body;
        final long begin;
        final long end;

        Run(JSONObject args) {
            topic = args.getString("topic");
            body = new byte[args.getIntValue("size")];
            ThreadLocalRandom.current().nextBytes(body);
            begin = System.nanoTime() + args.getLongValue("warmupMs") * 1_000_000;
            end = begin + args.getLongValue("measureMs") * 1_000_000;
        }

        boolean over() {
            return System.nanoTime() >= end;
        }

        void answered(long sentAt, SendResult result) {
            long now = System.nanoTime();
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                notStored.incrementAndGet();
            } else if (now >= begin && now < end) {
                latencies.add(now - sentAt);
            }
        }
    }

    private static DefaultMQProducer producer(JSONObject args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("bench");
        producer.setNamesrvAddr(args.getString("nameServer"));
        producer.setInstanceName("bench-" + System.nanoTime());
        producer.setRetryTimesWhenSendFailed(0);
        producer.setRetryTimesWhenSendAsyncFailed(0);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        return producer;
    }

    private static Object produce(JSONObject args) throws Exception {
        DefaultMQProducer producer = producer(args);
        Run run = new Run(args);
        if (args.getIntValue("window") > 0) {
            pipeline(producer, run, args.getIntValue("window"));
        } else {
            Thread[] senders = new Thread[args.getIntValue("senders")];
            for (int i = 0; i < senders.length; i++) {
                senders[i] = new Thread(() -> sendUntilOver(producer, run), "sender-" + i);
                senders[i].start();
            }
            for (Thread sender : senders) {
                sender.join();
            }
        }
        producer.shutdown();
        Map<String, Object> out = new LinkedHashMap<>();
        long count = run.latencies.count();
        out.put("messages", count);
        out.put("rate", count * 1e9 / (run.end - run.begin));
        out.put("p50us", run.latencies.micros(0.5));
        out.put("p99us", run.latencies.micros(0.99));
        out.put("p999us", run.latencies.micros(0.999));
        out.put("maxUs", run.latencies.longestMicros());
        out.put("failures", run.failures.get());
        out.put("notStored", run.notStored.get());
        return out;
    }

    private static void sendUntilOver(DefaultMQProducer producer, Run run) {
        while (!run.over()) {
            long sentAt = System.nanoTime();
            try {
                run.answered(sentAt, producer.send(new Message(run.topic, run.body)));
            } catch (Exception failure) {
                run.failures.incrementAndGet();
            }
        }
    }

    private static void pipeline(DefaultMQProducer producer, Run run, int window) throws Exception {
        Semaphore open = new Semaphore(window);
        while (!run.over()) {
            open.acquire();
            long sentAt = System.nanoTime();
            producer.send(new Message(run.topic, run.body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    run.answered(sentAt, result);
                    open.release();
                }

                @Override
                public void onException(Throwable failure) {
                    run.failures.incrementAndGet();
                    open.release();
                }
            });
        }
        open.tryAcquire(window, 15, TimeUnit.SECONDS);
    }

    /** Reads a filled topic from its start with a fresh group; the clock runs from the first message to the last. */
    private static Object consume(JSONObject args) throws Exception {
        AtomicLong seen = new AtomicLong();
        AtomicLong bytes = new AtomicLong();
        AtomicLong first = new AtomicLong();
        AtomicLong last = new AtomicLong();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("bench-" + System.nanoTime());
        consumer.setNamesrvAddr(args.getString("nameServer"));
        consumer.setInstanceName("bench-" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(32);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        consumer.subscribe(args.getString("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.nanoTime();
            first.compareAndSet(0, now);
            last.accumulateAndGet(now, Math::max);
            messages.forEach(message -> bytes.addAndGet(message.getBody().length));
            seen.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        long wanted = args.getLongValue("count");
        long deadline = System.nanoTime() + args.getLongValue("limitMs") * 1_000_000;
        while (seen.get() < wanted && System.nanoTime() < deadline) {
            TimeUnit.MILLISECONDS.sleep(10);
        }
        consumer.shutdown();
        Map<String, Object> out = new LinkedHashMap<>();
        double seconds = Math.max(1, last.get() - first.get()) / 1e9;
        out.put("messages", seen.get());
        out.put("rate", seen.get() / seconds);
        out.put("mebibytesPerSecond", bytes.get() / seconds / (1 << 20));
        return out;
    }

    public static void main(String[] arguments) throws Exception {
        new Driver().add("produce", Bench::produce).add("consume", Bench::consume).serve();
        System.exit(0);
    }
}
