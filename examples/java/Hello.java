import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Sends a few messages with the official Java client and receives them again: Hello NAME_SERVER COUNT. */
public final class Hello {
    private static final String TOPIC = "hello";

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[1]);
        send(args[0], count);
        boolean complete = receive(args[0], count);
        System.exit(complete ? 0 : 1); // the client keeps threads of its own
    }

    private static void send(String nameServer, int count) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("hello-writers");
        producer.setNamesrvAddr(nameServer);
        producer.start();
        for (int number = 1; number <= count; number++) {
            byte[] body = ("message " + number).getBytes(StandardCharsets.UTF_8);
            SendResult result = producer.send(new Message(TOPIC, "greeting", body));
            System.out.printf("sent      message %d  %s  queue %d offset %d%n", number, result.getSendStatus(),
                result.getMessageQueue().getQueueId(), result.getQueueOffset());
        }
        producer.shutdown();
    }

    private static boolean receive(String nameServer, int count) throws Exception {
        CountDownLatch missing = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("hello-readers");
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(TOPIC, "greeting");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                System.out.printf("received  %s  queue %d offset %d%n",
                    new String(message.getBody(), StandardCharsets.UTF_8), message.getQueueId(), message.getQueueOffset());
                missing.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean complete = missing.await(60, TimeUnit.SECONDS);
        consumer.shutdown();
        return complete;
    }
}
