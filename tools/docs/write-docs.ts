import { writeFileSync } from 'node:fs'
import { generatedDocs } from './generated-docs.js'

for (const { file, render } of generatedDocs) writeFileSync(file, await render())
