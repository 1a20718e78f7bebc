import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { client, shared, until } from "./support.js";

const home = fileURLToPath(new URL("../..", import.meta.url));
const readme = readFileSync(join(home, "README.md"), "utf8");

/** A folder in which the package is installed: one that the caller has made from the tarball, or one of links. */
const folder = process.env["TICKWHEEL_INSTALLED"] ?? linked();
/** What runs the programs; other runtimes run the producer alone. */
const runtime = process.env["TICKWHEEL_RUNTIME"]?.split(" ") ?? [process.execPath];

function linked(): string {
    const made = mkdtempSync(join(tmpdir(), "tickwheel-readme-"));
    after(() => rmSync(made, { recursive: true }));
    mkdirSync(join(made, "node_modules"));
    symlinkSync(home, join(made, "node_modules", "tickwheel"));
    symlinkSync(join(home, "node_modules", "zod"), join(made, "node_modules", "zod"));
    return made;
}

/** Returns a program of the README as it stands there. */
function block(name: string): string {
    const found = new RegExp(`<!-- runs: ${name} -->\n\`\`\`ts\n([^]*?)\`\`\``).exec(readme)?.[1];
    assert.ok(found, `README.md has no program ${name}`);
    return found;
}

async function start(name: string, command: string[]): Promise<ChildProcess> {
    const file = join(folder, `${name}.mjs`);
    writeFileSync(file, block(name));
    const [program = "", ...rest] = command;
    const child = spawn(program, [...rest, file], {
        cwd: folder,
        env: { ...process.env, TICKWHEEL_SERVER: (await shared()).url },
    });
    after(() => child.kill("SIGKILL"));
    return child;
}

test(
    "the programs of the README are as short as it says, and run as they stand there",
    { timeout: 60_000 },
    async () => {
        assert.deepEqual(
            [block("producer"), block("worker")].map((text) => text.trim().split("\n").length),
            [3, 10],
        );
        const producer = await start("producer", runtime);
        let errors = "";
        producer.stderr?.on("data", (text) => (errors += text));
        assert.equal(await new Promise((resolve) => producer.on("exit", resolve)), 0, errors);
        const worker = await start("worker", [process.execPath]);
        let output = "";
        worker.stdout?.on("data", (text) => (output += text));
        worker.stderr?.on("data", (text) => (output += text));
        await until("it greets", () => output.includes("hello Ada, attempt 1"), 20_000);
        const tasks = await client();
        const [task] = await tasks.list({ callback: "greet" }).toArray();
        assert.deepEqual(await tasks.result(task?.id ?? ""), { greeted: "Ada" });
        worker.kill("SIGTERM");
        assert.equal(await new Promise((resolve) => worker.on("exit", resolve)), 0, output);
    },
);
