import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Timer messages of RocketMQ 5; a producer with 64 under way, a push consumer. */
final class RocketMq extends Adapter {
    private static final int IN_FLIGHT = 64;
    private static final String TOPIC = "timers";

    private final Semaphore places = new Semaphore(IN_FLIGHT);
    private final DefaultMQProducer producer = new DefaultMQProducer("producers");
    private final String names;
    private DefaultMQPushConsumer consumer;

    private RocketMq(String names) throws Exception {
        this.names = names;
        producer.setNamesrvAddr(names);
        producer.setRetryTimesWhenSendAsyncFailed(0);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        // The topic is made by the first message; it has to be seen by the name server before there can be consumers.
        for (int left = 120; ; left--) {
            try {
                producer.createTopic("TBW102", TOPIC, 8, null);
                break;
            } catch (Exception error) {
                if (left == 0) {
                    throw error;
                }
                Thread.sleep(500);
            }
        }
    }

    @Override
    void register(List<Task> tasks, boolean batched) throws Exception {
        CountDownLatch left = new CountDownLatch(tasks.size());
        AtomicReference<Throwable> failed = new AtomicReference<>();
        for (Task one : tasks) {
            Message message = new Message(TOPIC, one.body());
            message.setDeliverTimeMs(one.due());
            places.acquire();
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    if (result.getSendStatus() != SendStatus.SEND_OK) {
                        failed.set(new IllegalStateException(result.toString()));
                    }
                    ended();
                }

                @Override
                public void onException(Throwable error) {
                    failed.set(error);
                    ended();
                }

                private void ended() {
                    places.release();
                    left.countDown();
                }
            });
        }
        left.await();
        if (failed.get() != null) {
            throw new Exception(failed.get());
        }
    }

    @Override
    synchronized void consume() throws Exception {
        if (consumer != null) {
            return;
        }
        consumer = new DefaultMQPushConsumer("consumers");
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(256);
        consumer.setConsumeMessageBatchMaxSize(64);
        consumer.subscribe(TOPIC, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long received = micros();
            for (MessageExt message : messages) {
                came(id(message.getBody()), received);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    @Override
    long pending() {
        return -1;
    }

    public static void main(String[] arguments) throws Exception {
        new RocketMq(arguments[0]).serve(arguments[1]);
    }
}
