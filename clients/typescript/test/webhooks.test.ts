import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { type Server, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { verify } from "tickwheel";
import { configure, shop } from "../examples/express.js";
import { POST } from "../examples/next/app/api/reminders/route.js";
import { client, until } from "./support.js";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER = "whsec_c2VjcmV0IG9mIGFub3RoZXIgY2FsbGJhY2s=";

function signed(body: string, secret = SECRET, at = new Date()): Record<string, string> {
    const timestamp = String(Math.floor(at.getTime() / 1000));
    const mac = createHmac("sha256", Buffer.from(secret.slice(6), "base64"))
        .update(`msg_1.${timestamp}.${body}`)
        .digest("base64");
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": timestamp,
        "webhook-signature": `v1,${mac}`,
        "tickwheel-attempt": "2",
    };
}

async function listening(server: Server): Promise<string> {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("a message that is signed well is read", async () => {
    const body = `{"user":7}`;
    const message = await verify(body, signed(body), SECRET);
    assert.deepEqual([message.id, message.attempt, message.payload], ["msg_1", 2, { user: 7 }]);
    assert.ok(Math.abs(message.timestamp.getTime() - Date.now()) < 2_000);
    assert.deepEqual((await verify(Buffer.from(body), new Headers(signed(body)), [OTHER, SECRET])).payload, {
        user: 7,
    });
    const both = {
        ...signed(body),
        "webhook-signature": `${signed(body, OTHER)["webhook-signature"]} ${signed(body)["webhook-signature"]}`,
    };
    assert.equal((await verify(body, both, SECRET)).id, "msg_1");
    assert.equal((await verify("", signed(""), SECRET)).payload, undefined);
});

test("the example of Standard Webhooks is verified", async () => {
    const headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    };
    const now = new Date(1614265330_000);
    const message = await verify(`{"test": 2432232314}`, headers, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", { now });
    assert.deepEqual(message.payload, { test: 2432232314 });
});

test("every other message is refused with a reason", async () => {
    const body = `{"user":7}`;
    const refused = async (given: string, headers: Record<string, string>, code: string, secret = SECRET) =>
        assert.rejects(verify(given, headers, secret), { name: "WebhookError", code });
    await refused(`{"user":8}`, signed(body), "wrong_signature");
    await refused(body, signed(body, OTHER), "wrong_signature");
    await refused(body, { ...signed(body), "webhook-id": "msg_2" }, "wrong_signature");
    await refused(body, { ...signed(body), "webhook-signature": "v1,%%% v2,AAAA v1," }, "wrong_signature");
    await refused("<html>", signed("<html>"), "not_json");
    for (const name of ["webhook-id", "webhook-timestamp", "webhook-signature"]) {
        await refused(body, { ...signed(body), [name]: "" }, "missing_header");
    }
    const at = (seconds: number) => signed(body, SECRET, new Date(Date.now() + seconds * 1000));
    await refused(body, at(-302), "outside_tolerance");
    await refused(body, at(302), "outside_tolerance");
    assert.equal((await verify(body, at(-298), SECRET)).id, "msg_1");
    assert.equal((await verify(body, at(298), SECRET)).id, "msg_1");
    await refused(body, { ...signed(body), "webhook-timestamp": "soon" }, "outside_tolerance");
    await assert.rejects(verify(body, signed(body), "whsec_"), TypeError);
});

test("a shop on Express registers reminders, moves them, and takes those that the service sends", async () => {
    const tasks = await client();
    const reminded: string[] = [];
    const server = createServer(shop(tasks, SECRET, (basket) => reminded.push(basket)));
    const address = await listening(server);
    try {
        await configure(tasks, address, SECRET);
        const put = async (basket: string, delay: string) =>
            fetch(`${address}/baskets/${basket}?in=${delay}`, { method: "PUT" });
        assert.equal((await put("b1", "1h")).status, 202);
        assert.equal((await put("b1", "100ms")).status, 202);
        assert.equal((await put("b2", "1h")).status, 202);
        const paid = await fetch(`${address}/baskets/b2/paid`, { method: "POST" });
        assert.deepEqual(await paid.json(), { reminder: "cancelled" });
        await until("it was reminded of", () => reminded.length > 0);
        assert.deepEqual(reminded, ["b1"]);
        const forged = await fetch(`${address}/reminders`, {
            method: "POST",
            body: `{"basket":"b3"}`,
            headers: signed(`{"basket":"b3"}`, OTHER),
        });
        assert.equal(forged.status, 401);
    } finally {
        server.closeAllConnections();
        server.close();
    }
});

test("a route of Next.js takes what the service sends, each message once", async () => {
    const tasks = await client();
    process.env["WEBHOOK_SECRET"] = SECRET;
    const answers: number[] = [];
    const server = createServer((request, response) => {
        const chunks: Buffer[] = [];
        request.on("data", (chunk: Buffer) => chunks.push(chunk));
        request.on("end", async () => {
            const headers = new Headers(request.headers as Record<string, string>);
            const answer = await POST(
                new Request("http://route.example/api/reminders", {
                    method: "POST",
                    headers,
                    body: Buffer.concat(chunks),
                }),
            );
            answers.push(answer.status);
            response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
        });
    });
    const address = await listening(server);
    try {
        await tasks.callbacks.set("next_reminder", { http: { url: `${address}/api/reminders`, secrets: [SECRET] } });
        const task = await tasks.register({ callback: "next_reminder", payload: { basket: "b1" } });
        assert.deepEqual(await tasks.result(task.id), { reminded: "b1", attempt: 1 });
        await tasks.redeliver(task.id);
        await until("it was delivered again", () => answers.length === 2);
        assert.deepEqual(answers, [200, 204]);
        const forged = new Request("http://route.example", {
            method: "POST",
            body: "{}",
            headers: signed("{}", OTHER),
        });
        assert.equal((await POST(forged)).status, 401);
    } finally {
        server.closeAllConnections();
        server.close();
    }
});
