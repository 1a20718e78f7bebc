// A test that starts a service and is then killed.
import { startService } from "tickwheel/testing";

const service = await startService();
process.stdout.write(`service ${service.url}\n`);
setInterval(() => {}, 1_000);
