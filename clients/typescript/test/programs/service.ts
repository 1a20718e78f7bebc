// A test that starts a service and is then killed.
import { execFileSync } from "node:child_process";
import { startService } from "tickwheel/testing";

const service = await startService();
const port = new URL(service.url).port;
const children = execFileSync("ps", ["-eo", "ppid,args"]).toString().split("\n");
const guard = children.find((line) => line.trim().startsWith(`${process.pid} `) && line.includes("tickwheel-test-"));
const folder = /\S*tickwheel-test-\w+/.exec(guard ?? "")?.[0];
process.stdout.write(`service ${service.url} ${folder ?? `(none at ${port})`}\n`);
setInterval(() => {}, 1_000);
