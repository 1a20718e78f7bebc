// Takes pictures of pages: node pictures.mjs FOLDER SERVER [--key KEY] [--dark] [--width 390] PATH...
import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { Browser, pause } from "./browser.mjs";

const words = process.argv.slice(2);
const option = (name) => {
  const at = words.indexOf(name);
  return at < 0 ? undefined : words.splice(at, 2)[1];
};
const flag = (name) => words.includes(name) && words.splice(words.indexOf(name), 1).length > 0;
const [key, width, dark, view] = [option("--key"), Number(option("--width") ?? 1280), flag("--dark"), flag("--view")];
const [folder, server, ...paths] = words;

const browser = await Browser.start();
try {
  const tab = await browser.tab();
  await tab.size(width, width < 500 ? 844 : 800, dark);
  if (key) await tab.call("Network.setCookie", { name: "tickwheel_key", value: key, url: server, httpOnly: true });
  for (const path of paths) {
    await tab.open(server + path);
    await pause(300);
    const name = (path.replace(/[^a-z0-9-]+/gi, "_").replace(/^_|_$/g, "").slice(0, 40) || "overview") + `-${width}${dark ? "-dark" : ""}.png`;
    writeFileSync(join(folder, name), await tab.picture(!view));
    console.log(name, await tab.run("document.scrollingElement.scrollWidth > innerWidth ? 'TOO WIDE' : ''"));
  }
  if (tab.wrong.length > 0) console.log("wrong:", tab.wrong);
} finally {
  await browser.stop();
}
