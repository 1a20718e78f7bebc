/** The thread that sends heartbeats: it goes on while a handler blocks the event loop of the program. */
import { parentPort, workerData } from "node:worker_threads";
import { Beats } from "./beats.js";
import { type HeartData, type ToHeart, sender } from "./heart.js";

const beats = new Beats(sender(workerData as HeartData, fetch), (key, told) => parentPort?.postMessage({ key, told }));

parentPort?.on("message", (message: ToHeart) => {
    switch (message.kind) {
        case "add":
            return beats.add(message.kept);
        case "remove":
            return beats.remove(message.key);
        case "progress":
            return beats.progress(message.key, message.json);
        default:
            return undefined;
    }
});
