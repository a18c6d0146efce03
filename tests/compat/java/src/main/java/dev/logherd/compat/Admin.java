package dev.logherd.compat;

import com.alibaba.fastjson.JSONObject;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** mqadmin in this process: what a command prints is captured, because a JVM for each command would cost a second. */
final class Admin {
    private Admin() {
    }

    static void addTo(Driver driver) {
        driver.add("mqadmin", Admin::run);
    }

    /** The commands are objects that keep a client which cannot start twice; a fresh process would have fresh ones. */
    private static void forgetCommands() throws ReflectiveOperationException {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (List.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }

    private static Object run(JSONObject args) throws ReflectiveOperationException {
        forgetCommands();
        String[] command = args.getJSONArray("command").toArray(new String[0]);
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
        try {
            MQAdminStartup.main0(command, null);
        } finally {
            System.out.flush();
            System.err.flush();
            System.setOut(out);
            System.setErr(err);
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("out", printed.toString(StandardCharsets.UTF_8));
        result.put("err", complained.toString(StandardCharsets.UTF_8));
        return result;
    }
}
