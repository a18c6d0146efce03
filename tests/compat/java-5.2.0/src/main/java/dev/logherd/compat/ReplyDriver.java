package dev.logherd.compat;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Request-reply: a responder that answers each request with "re: " + its body, and a requester. Same line protocol as
 * the 5.3.3 driver, two calls: start {nameServer, topic} and request {text, timeoutMs}.
 */
public final class ReplyDriver {
    private static DefaultMQProducer requester;
    private static String topic;

    private ReplyDriver() {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JSONObject request = JSON.parseObject(line);
            JSONObject answer = new JSONObject(true);
            answer.put("id", request.get("id"));
            try {
                JSONObject args = request.getJSONObject("args");
                answer.put("result", "start".equals(request.getString("call")) ? start(args) : request(args));
            } catch (Throwable failure) {
                JSONObject error = new JSONObject(true);
                error.put("type", failure.getClass().getSimpleName());
                error.put("message", String.valueOf(failure.getMessage()));
                answer.put("error", error);
            }
            System.out.println(answer.toJSONString());
        }
        System.exit(0);
    }

    private static boolean start(JSONObject args) throws Exception {
        topic = args.getString("topic");
        DefaultMQProducer replier = producer(args, "repliers");
        DefaultMQPushConsumer responder = new DefaultMQPushConsumer("responders-" + topic);
        responder.setNamesrvAddr(args.getString("nameServer"));
        responder.setInstanceName("responder-" + System.nanoTime());
        responder.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        responder.subscribe(topic, "*");
        responder.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            try {
                for (MessageExt message : messages) {
                    String text = "re: " + new String(message.getBody(), StandardCharsets.UTF_8);
                    replier.send(MessageUtil.createReplyMessage(message, text.getBytes(StandardCharsets.UTF_8)), 3000);
                }
            } catch (Exception failure) {
                failure.printStackTrace();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        responder.start();
        requester = producer(args, "requesters");
        return true;
    }

    private static DefaultMQProducer producer(JSONObject args, String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(args.getString("nameServer"));
        producer.setInstanceName(group + "-" + System.nanoTime());
        producer.start();
        return producer;
    }

    private static String request(JSONObject args) throws Exception {
        byte[] body = args.getString("text").getBytes(StandardCharsets.UTF_8);
        Message reply = requester.request(new Message(topic, body), args.getLongValue("timeoutMs"));
        return new String(reply.getBody(), StandardCharsets.UTF_8);
    }
}
