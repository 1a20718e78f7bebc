/** The thread that sends heartbeats: it goes on while a handler blocks the event loop of the program. */
import { parentPort, workerData } from "node:worker_threads";
import { Beats, type ToHeart } from "./beats.js";
import { type HeartData, sender } from "./heart.js";

const beats = new Beats(sender(workerData as HeartData, fetch), (key, told) => parentPort?.postMessage({ key, told }));

parentPort?.on("message", (message: ToHeart) => beats.take(message));
