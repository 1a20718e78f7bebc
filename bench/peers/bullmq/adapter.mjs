// Serves the harness on a Unix socket, for BullMQ. What is spoken is described in ../java/Adapter.java.
//
// node adapter.mjs PORT SOCKET

import net from "node:net";
import { Queue, Worker } from "bullmq";

const BODY_BYTES = 256;
const TASK_BYTES = 16 + BODY_BYTES;
const IN_FLIGHT = 64;
const CONCURRENCY = 128;
const connection = { host: "127.0.0.1", port: Number(process.argv[2]), maxRetriesPerRequest: null };
const queue = new Queue("timers", { connection });

let worker;
let arrivals = [];
let underWay = 0;
const waiting = [];

function* tasks(request) {
  const count = request.readUInt32LE(1);
  for (let index = 0, at = 5; index < count; index++, at += TASK_BYTES) {
    const due = Number(request.readBigInt64LE(at));
    const body = request.toString("latin1", at + 16, at + TASK_BYTES);
    const now = Date.now();
    // The delay counts from the job's time stamp, so that it ends when it should.
    yield { name: "timer", data: body, opts: { timestamp: now, delay: Math.max(0, due - now), removeOnComplete: true } };
  }
}

async function addOne(job) {
  if (underWay >= IN_FLIGHT) await new Promise((free) => waiting.push(free));
  underWay++;
  try {
    await queue.add(job.name, job.data, job.opts);
  } finally {
    underWay--;
    waiting.shift()?.();
  }
}

async function register(request, batched) {
  if (batched) await queue.addBulk([...tasks(request)]);
  else await Promise.all([...tasks(request)].map(addOne));
  return Buffer.from([0]);
}

function idOf(body) {
  if (body.length !== BODY_BYTES) throw new Error(`a body of ${body.length} bytes`);
  return BigInt(body.slice(8, 28));
}

function consume(socket) {
  if (!worker) {
    worker = new Worker("timers", async () => Date.now(), { connection, concurrency: CONCURRENCY });
    worker.on("completed", (job, received) => arrivals.push([idOf(job.data), received, Date.now()]));
    worker.on("error", (error) => console.error(error));
  }
  let last = Date.now();
  const telling = setInterval(() => {
    const now = Date.now();
    if (arrivals.length === 0 && now - last < 1000) return;
    last = now;
    const answer = Buffer.alloc(1 + arrivals.length * 24);
    arrivals.forEach(([id, received, settled], index) => {
      answer.writeBigInt64LE(id, 1 + index * 24);
      answer.writeBigInt64LE(BigInt(received) * 1000n, 9 + index * 24);
      answer.writeBigInt64LE(BigInt(settled) * 1000n, 17 + index * 24);
    });
    arrivals = [];
    write(socket, answer);
  }, 5);
  // Whoever consumes next is told.
  socket.on("close", () => clearInterval(telling));
}

async function pending() {
  const answer = Buffer.alloc(9);
  answer.writeBigInt64LE(BigInt(await queue.getDelayedCount()), 1);
  return answer;
}

function write(socket, answer) {
  const head = Buffer.alloc(4);
  head.writeUInt32LE(answer.length);
  socket.write(Buffer.concat([head, answer]));
}

async function answer(socket, request) {
  try {
    const kind = String.fromCharCode(request[0]);
    if (kind === "C") return consume(socket);
    write(socket, kind === "P" ? await pending() : await register(request, kind === "B"));
  } catch (error) {
    console.error(error);
    write(socket, Buffer.concat([Buffer.from([1]), Buffer.from(String(error))]));
  }
}

await queue.waitUntilReady();
net
  .createServer((socket) => {
    let parts = Buffer.alloc(0);
    socket.on("error", () => socket.destroy());
    socket.on("data", (data) => {
      parts = Buffer.concat([parts, data]);
      while (parts.length >= 4 && parts.length >= 4 + parts.readUInt32LE(0)) {
        const end = 4 + parts.readUInt32LE(0);
        answer(socket, parts.subarray(4, end));
        parts = parts.subarray(end);
      }
    });
  })
  .listen(process.argv[3]);
