import { PNG } from 'pngjs'
import type { Test } from 'tap'
import { auditAll, type Visit, withSettings } from './browser.js'

/** A picture of one colour. */
export function picture(width: number, height: number): Buffer {
  const image = new PNG({ width, height })
  image.data.fill(0xff)
  return PNG.sync.write(image)
}

/** A page with a text; readers find their way without the table at its end. */
const pdf = Buffer.from(`%PDF-1.4
1 0 obj <</Type /Catalog /Pages 2 0 R>> endobj
2 0 obj <</Type /Pages /Kids [3 0 R] /Count 1>> endobj
3 0 obj <</Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R
  /Resources <</Font <</F1 <</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>>>>>>> endobj
4 0 obj <</Length 46>> stream
BT /F1 18 Tf 20 100 Td (A ball from a PDF) Tj ET
endstream endobj
trailer <</Root 1 0 R>>
`)

/** In the page: gives the message's field a picture of 3000 pixels. */
const give = `async (kind, name) => {
  const canvas = new OffscreenCanvas(3000, 2000)
  canvas.getContext('2d').fillRect(0, 0, 1500, 2000)
  const type = 'image/' + name.split('.')[1]
  const data = new DataTransfer()
  data.items.add(new File([await canvas.convertToBlob({ type })], name, { type }))
  const Event = kind === 'paste' ? ClipboardEvent : DragEvent
  const files = { [kind === 'paste' ? 'clipboardData' : 'dataTransfer']: data }
  document.querySelector('.composer textarea')
    .dispatchEvent(new Event(kind, { bubbles: true, cancelable: true, ...files }))
}`

/** The text of a PDF goes with a question; an image does not where the model reads text only. */
export async function textOnly(t: Test, { page }: Visit): Promise<void> {
  await page.keyboard.press('Control+k')
  const question = page.getByRole('form', { name: 'Question' })
  await page.getByLabel('Attach files').setInputFiles([
    { name: 'a.pdf', mimeType: 'application/pdf', buffer: pdf },
    { name: 'b.png', mimeType: 'image/png', buffer: picture(8, 8) },
  ])
  await page.getByText('b.png: this model takes no images').waitFor()
  await question.getByText(/^\d+ tokens$/).waitFor()
  await page.getByLabel('Message', { exact: true }).fill('What is it?')
  const asked = page.waitForRequest('**/v1/chat/completions')
  await page.keyboard.press('Enter')
  const { messages } = (await asked).postDataJSON() as { readonly messages: readonly object[] }
  t.match(messages.at(-1), { content: /^a\.pdf:\n```\nA ball from a PDF\s*\n```\n\nWhat is it\?$/ })
  await page.getByText(/· \d+ tokens ·/).waitFor()
}

/** Images are chosen, pasted and dropped; they cost tokens, are shown, sent, kept and saved. */
export async function images(t: Test, { page, url }: Visit): Promise<void> {
  await page.goto(`${url}/ui/`)
  await withSettings(page, async () => await page.getByLabel('Max tokens').fill('8'))
  const question = page.getByRole('form', { name: 'Question' })
  const file = { name: 'a.png', mimeType: 'image/png', buffer: picture(320, 200) }
  await page.getByLabel('Attach files').setInputFiles([file])
  await question.getByText('16 tokens').waitFor()
  for (const [kind, name] of [
    ['paste', 'large.webp'],
    ['drop', 'dropped.png'],
  ] as const) {
    await page.evaluate(`(${give})('${kind}', '${name}')`)
    await question.getByText(name).waitFor()
  }
  await question.getByText('16 tokens').nth(2).waitFor()
  const broken = { name: 'broken.png', mimeType: 'image/png', buffer: Buffer.from('no image') }
  await page.getByLabel('Attach files').setInputFiles([broken])
  await page.getByText('broken.png: no image that this browser reads').waitFor()
  await question.getByRole('button', { name: 'Remove dropped.png' }).click()
  await auditAll(t, page)
  await page.getByLabel('Message', { exact: true }).fill('What do you see?')
  const asked = page.waitForRequest('**/v1/chat/completions')
  await page.keyboard.press('Enter')
  const { messages } = (await asked).postDataJSON() as { readonly messages: readonly object[] }
  t.match(messages.at(-1), {
    content: [
      { image_url: { url: `data:image/png;base64,${file.buffer.toString('base64')}` } },
      { image_url: { url: /^data:image\/jpeg;/ } },
      { type: 'text', text: 'What do you see?' },
    ],
  })
  await page.getByText(/· 8 tokens ·/).waitFor()
  const shown = page.locator('.turn.user img')
  const sizes = async () =>
    await page.evaluate(
      '[...document.querySelectorAll(".turn img")].map((each) => each.naturalWidth)',
    )
  t.same(await sizes(), [320, 1536], 'the large one is made smaller')
  const saved = page.waitForEvent('download')
  await page.getByLabel('More of What do you see?').click()
  await page.getByRole('button', { name: 'Save JSON' }).click()
  const path = await (await saved).path()
  const entry = page.getByRole('button', { name: 'What do you see?', exact: true })
  await page.reload()
  await entry.click()
  await shown.nth(1).waitFor()
  await page.getByLabel('More of What do you see?').click()
  await page.getByRole('button', { name: 'Delete' }).click()
  await entry.waitFor({ state: 'detached' })
  await page.getByLabel('Import a conversation').setInputFiles(path)
  await entry.click()
  await shown.nth(1).waitFor()
  await page.waitForFunction('[...document.images].every((each) => each.complete)')
  t.same(await sizes(), [320, 1536], 'a saved file has them, too')
}
