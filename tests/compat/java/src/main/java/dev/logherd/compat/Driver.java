package dev.logherd.compat;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;

/**
 * A stock client behind a line protocol: one JSON call per line on standard input, one JSON answer per line on standard
 * output. The test that drives it decides what to do and what must hold; nothing is asserted here.
 *
 * Call:   {"id":1,"call":"producer.send","args":{...}}
 * Answer: {"id":1,"result":...} or {"id":1,"error":{"type":"...","code":13,"message":"..."}}
 */
public final class Driver {
    /** One call of the protocol; whatever it throws becomes the "error" of its answer. */
    public interface Call {
        Object run(JSONObject args) throws Exception;
    }

    private final Map<String, Call> calls = new LinkedHashMap<>();
    private final PrintStream answers = System.out;

    public Driver add(String name, Call call) {
        calls.put(name, call);
        return this;
    }

    /** Runs calls one after the other until standard input ends. */
    public void serve() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 20);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JSONObject request = JSON.parseObject(line);
            JSONObject answer = new JSONObject(true);
            answer.put("id", request.get("id"));
            try {
                Call call = calls.get(request.getString("call"));
                if (call == null) {
                    throw new IllegalArgumentException("no such call: " + request.getString("call"));
                }
                JSONObject args = request.getJSONObject("args");
                answer.put("result", call.run(args == null ? new JSONObject() : args));
            } catch (Throwable failure) {
                answer.put("error", describe(failure));
            }
            byte[] text = JSON.toJSONString(answer, SerializerFeature.DisableCircularReferenceDetect,
                SerializerFeature.WriteMapNullValue).getBytes(StandardCharsets.UTF_8);
            synchronized (answers) {
                answers.write(text, 0, text.length);
                answers.write('\n');
                answers.flush();
            }
        }
    }

    /** Class, message and, where a broker answered, its response code. */
    public static Map<String, Object> describe(Throwable failure) {
        Map<String, Object> error = new LinkedHashMap<>();
        error.put("type", failure.getClass().getSimpleName());
        if (failure instanceof MQBrokerException) {
            error.put("code", ((MQBrokerException) failure).getResponseCode());
        } else if (failure instanceof MQClientException) {
            error.put("code", ((MQClientException) failure).getResponseCode());
        }
        error.put("message", String.valueOf(failure.getMessage()));
        if (failure.getCause() != null && failure.getCause() != failure) {
            error.put("cause", describe(failure.getCause()));
        }
        return error;
    }

    public static void main(String[] arguments) throws Exception {
        Driver driver = new Driver();
        Producers.addTo(driver);
        Consumers.addTo(driver);
        Queries.addTo(driver);
        Admin.addTo(driver);
        Steady.addTo(driver);
        PromptShutdown.watch(Thread.currentThread());
        driver.serve();
        System.exit(0);
    }
}
