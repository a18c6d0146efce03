package dev.logherd.compat;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages and send results to and from JSON. Bodies travel as Base64 one way and as length + SHA-256 the other. */
final class Messages {
    private Messages() {
    }

    static List<Message> parse(String topic, JSONArray specs) {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < specs.size(); i++) {
            JSONObject spec = specs.getJSONObject(i);
            Message message = new Message(topic, Base64.getDecoder().decode(spec.getString("body")));
            if (spec.containsKey("tags")) {
                message.setTags(spec.getString("tags"));
            }
            if (spec.containsKey("keys")) {
                message.setKeys(spec.getString("keys"));
            }
            if (spec.containsKey("wait")) {
                message.setWaitStoreMsgOK(spec.getBooleanValue("wait"));
            }
            if (spec.containsKey("delay")) {
                message.setDelayTimeLevel(spec.getIntValue("delay"));
            }
            JSONObject properties = spec.getJSONObject("properties");
            if (properties != null) {
                for (String name : properties.keySet()) {
                    message.putUserProperty(name, properties.getString(name));
                }
            }
            messages.add(message);
        }
        return messages;
    }

    static Map<String, Object> describe(SendResult result) {
        Map<String, Object> out = new LinkedHashMap<>();
        if (result == null) {
            return out;
        }
        out.put("status", result.getSendStatus().name());
        out.put("msgId", result.getMsgId());
        out.put("offsetMsgId", result.getOffsetMsgId());
        out.put("queueId", result.getMessageQueue().getQueueId());
        out.put("broker", result.getMessageQueue().getBrokerName());
        out.put("offset", result.getQueueOffset());
        out.put("region", result.getRegionId());
        out.put("traceOn", result.isTraceOn());
        return out;
    }

    static Map<String, Object> describe(MessageExt message) throws Exception {
        Map<String, Object> out = new LinkedHashMap<>();
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        out.put("topic", message.getTopic());
        out.put("queueId", message.getQueueId());
        out.put("offset", message.getQueueOffset());
        out.put("position", message.getCommitLogOffset());
        out.put("msgId", message.getMsgId());
        out.put("storeSize", message.getStoreSize());
        out.put("length", body.length);
        out.put("sha256", hex(MessageDigest.getInstance("SHA-256").digest(body)));
        out.put("tags", message.getTags());
        out.put("keys", message.getKeys());
        out.put("flag", message.getFlag());
        out.put("sysFlag", message.getSysFlag());
        out.put("bornTimestamp", message.getBornTimestamp());
        out.put("storeTimestamp", message.getStoreTimestamp());
        out.put("bornHost", String.valueOf(message.getBornHostString()));
        out.put("storeHost", String.valueOf(message.getStoreHost()));
        out.put("reconsumeTimes", message.getReconsumeTimes());
        out.put("properties", new TreeMap<>(message.getProperties()));
        return out;
    }

    static List<Object> describeAll(Iterable<? extends MessageExt> messages) throws Exception {
        List<Object> out = new ArrayList<>();
        for (MessageExt message : messages) {
            out.add(describe(message));
        }
        return out;
    }

    private static String hex(byte[] bytes) {
        StringBuilder out = new StringBuilder(bytes.length * 2);
        for (byte b : bytes) {
            out.append(Character.forDigit((b >> 4) & 15, 16)).append(Character.forDigit(b & 15, 16));
        }
        return out.toString();
    }
}
