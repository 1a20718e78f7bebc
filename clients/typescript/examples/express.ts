// A shop on Express: a basket that is not paid in time is reminded of, and the service sends the reminder as a signed request.
//
//     WEBHOOK_SECRET=whsec_... node express.js
import express, { type Express } from "express";
import { Client } from "tickwheel";
import { WebhookError, verify } from "tickwheel/webhooks";

const CALLBACK = "basket_reminder";

/** Says where the service sends the reminders, and how it signs them. */
export async function configure(client: Client, address: string, secret: string): Promise<void> {
    await client.callbacks.set(CALLBACK, { http: { url: `${address}/reminders`, secrets: [secret] } });
}

export function shop(client: Client, secret: string, remind: (basket: string) => void): Express {
    const app = express();

    // One reminder a basket: a change of the basket moves it.
    app.put("/baskets/:basket", async (request, response) => {
        const { basket } = request.params;
        const task = await client.register({
            callback: CALLBACK,
            key: basket,
            on_conflict: "replace",
            delay: String(request.query["in"] ?? "1h"),
            payload: { basket },
        });
        response.status(202).json({ reminder: task.start_time });
    });

    app.post("/baskets/:basket/paid", async (request, response) => {
        const { outcome } = await client.key(CALLBACK, request.params.basket).cancel();
        response.json({ reminder: outcome });
    });

    // The signature is of the bytes that came, so nothing reads them before.
    app.post("/reminders", express.raw({ type: "*/*" }), async (request, response) => {
        try {
            const { payload } = await verify<{ basket: string }>(request.body, request.headers, secret);
            remind(payload.basket);
            response.sendStatus(204);
        } catch (error) {
            if (!(error instanceof WebhookError)) throw error;
            response.status(401).send(error.message);
        }
    });
    return app;
}

if (process.argv[1]?.endsWith("express.js")) {
    const secret = process.env["WEBHOOK_SECRET"] ?? "";
    const client = new Client();
    await configure(client, "http://127.0.0.1:3000", secret);
    shop(client, secret, (basket) => console.log(`basket ${basket} is still not paid`)).listen(3000);
}
