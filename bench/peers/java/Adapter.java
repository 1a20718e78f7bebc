import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Serves the harness on a Unix socket, for a peer whose client is written in Java.
 *
 * <p>A frame is its length in four bytes and so many bytes, all numbers little-endian. The harness asks with a letter: S
 * (register these singly) or B (in one batch), then the count and for each the due time in ms, the id, the body; P (how
 * many are pending); C (consume from now on). An answer begins with 0, or with 1 and a text that says what went wrong. To C
 * come frames of arrivals without end: id, when it was received, when it was acknowledged, in microseconds; an empty one
 * every second.
 */
abstract class Adapter {
    static final int BODY_BYTES = 256;
    private static final byte[] HEAD = "{\"job\":\"".getBytes(StandardCharsets.US_ASCII);
    private static final int DIGITS = 20;

    record Task(long due, long id, byte[] body) {}

    private record Arrival(long id, long received, long settled) {}

    private final ConcurrentLinkedQueue<Arrival> arrivals = new ConcurrentLinkedQueue<>();

    /** Returns when all are acknowledged. */
    abstract void register(List<Task> tasks, boolean batched) throws Exception;

    /** Begins to take tasks; each is told to {@link #came}. */
    abstract void consume() throws Exception;

    /** Returns how many tasks are pending; less than 0 when that cannot be known. */
    abstract long pending() throws Exception;

    static long micros() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }

    /** Returns whose body it is; it must be whole. */
    static long id(byte[] body) {
        if (body.length != BODY_BYTES) {
            throw new IllegalStateException("a body of " + body.length + " bytes");
        }
        long id = 0;
        for (int at = HEAD.length; at < HEAD.length + DIGITS; at++) {
            id = id * 10 + (body[at] - '0');
        }
        return id;
    }

    void came(long id, long received) {
        arrivals.add(new Arrival(id, received, micros()));
    }

    void serve(String socket) throws Exception {
        try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            server.bind(UnixDomainSocketAddress.of(Path.of(socket)));
            while (true) {
                SocketChannel connection = server.accept();
                Thread thread = new Thread(() -> converse(connection), "connection");
                thread.setDaemon(true);
                thread.start();
            }
        }
    }

    private void converse(SocketChannel connection) {
        try (connection) {
            DataInputStream in = new DataInputStream(new BufferedInputStream(Channels.newInputStream(connection), 1 << 18));
            OutputStream out = Channels.newOutputStream(connection);
            while (true) {
                ByteBuffer request = ByteBuffer.wrap(in.readNBytes(Integer.reverseBytes(in.readInt())));
                answer(request.order(ByteOrder.LITTLE_ENDIAN), out);
            }
        } catch (EOFException closed) {
            // The harness needs this connection no more.
        } catch (Exception error) {
            error.printStackTrace();
        }
    }

    private void answer(ByteBuffer request, OutputStream out) throws Exception {
        try {
            char kind = (char) request.get();
            switch (kind) {
                case 'S', 'B' -> {
                    register(tasks(request), kind == 'B');
                    write(out, ByteBuffer.allocate(1));
                }
                case 'P' -> {
                    ByteBuffer answer = frame(9);
                    write(out, answer.putLong(1, pending()));
                }
                default -> {
                    consume();
                    tell(out);
                }
            }
        } catch (Exception error) {
            error.printStackTrace();
            byte[] text = error.toString().getBytes(StandardCharsets.UTF_8);
            write(out, ByteBuffer.allocate(text.length + 1).put((byte) 1).put(text));
        }
    }

    private static List<Task> tasks(ByteBuffer request) {
        int count = request.getInt();
        List<Task> tasks = new ArrayList<>(count);
        for (int index = 0; index < count; index++) {
            long due = request.getLong();
            long id = request.getLong();
            byte[] body = new byte[BODY_BYTES];
            request.get(body);
            tasks.add(new Task(due, id, body));
        }
        return tasks;
    }

    private void tell(OutputStream out) throws Exception {
        long last = System.nanoTime();
        while (true) {
            List<Arrival> some = new ArrayList<>();
            for (Arrival one; some.size() < 10_000 && (one = arrivals.poll()) != null; ) {
                some.add(one);
            }
            long now = System.nanoTime();
            if (!some.isEmpty() || now - last > 1_000_000_000L) {
                ByteBuffer answer = frame(1 + some.size() * 24).put((byte) 0);
                for (Arrival one : some) {
                    answer.putLong(one.id).putLong(one.received).putLong(one.settled);
                }
                try {
                    write(out, answer);
                } catch (IOException closed) {
                    // Whoever consumes next is told.
                    arrivals.addAll(some);
                    return;
                }
                last = now;
            }
            Thread.sleep(5);
        }
    }

    private static ByteBuffer frame(int length) {
        return ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static void write(OutputStream out, ByteBuffer answer) throws IOException {
        ByteBuffer whole = frame(4 + answer.capacity()).putInt(answer.capacity()).put(answer.array());
        out.write(whole.array());
    }
}
