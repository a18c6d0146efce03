package dev.logherd.compat;

import org.apache.rocketmq.remoting.netty.NettyRemotingClient;

/**
 * A stock client's shutdown waits up to three seconds for its event thread, which sleeps on an empty queue. A test that
 * starts and stops eighty clients would wait for minutes, so whoever is being waited for is woken.
 */
final class PromptShutdown {
    private PromptShutdown() {
    }

    static void watch(Thread caller) {
        Thread watcher = new Thread(() -> wakeForever(caller), "prompt-shutdown");
        watcher.setDaemon(true);
        watcher.start();
    }

    private static void wakeForever(Thread caller) {
        while (true) {
            if (waits(caller)) {
                for (Thread thread : Thread.getAllStackTraces().keySet()) {
                    if (thread.getName().startsWith("NettyEventExecutor")) {
                        thread.interrupt();
                    }
                }
            }
            try {
                Thread.sleep(20);
            } catch (InterruptedException end) {
                return;
            }
        }
    }

    private static boolean waits(Thread caller) {
        for (StackTraceElement frame : caller.getStackTrace()) {
            if (frame.getClassName().equals(NettyRemotingClient.class.getName())
                && frame.getMethodName().equals("shutdown")) {
                return true;
            }
        }
        return false;
    }
}
