import java.io.IOException;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.BrokerStartup;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.ha.DefaultHAService;

/** The broker as it is, but its port for replicas, which has no setting for an address, is the loopback's, too. */
final class Broker {
    private static final class LoopbackOnly extends DefaultHAService {
        @Override
        public void init(DefaultMessageStore store) throws IOException {
            super.init(store);
            try {
                Field listen = field(acceptSocketService.getClass().getSuperclass(), "socketAddressListen");
                int port = ((InetSocketAddress) listen.get(acceptSocketService)).getPort();
                listen.set(acceptSocketService, new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
            } catch (ReflectiveOperationException error) {
                throw new IOException(error);
            }
        }
    }

    private static Field field(Class<?> of, String name) throws ReflectiveOperationException {
        Field field = of.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    public static void main(String[] arguments) throws Exception {
        BrokerController controller = BrokerStartup.createBrokerController(arguments);
        field(DefaultMessageStore.class, "haService").set(controller.getMessageStore(), new LoopbackOnly());
        BrokerStartup.start(controller);
    }
}
