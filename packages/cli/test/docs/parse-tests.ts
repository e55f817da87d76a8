import ts from 'typescript'

/** The parsed source of a TypeScript file. */
export const parse = (text: string): ts.SourceFile =>
  ts.createSourceFile('a.ts', text, ts.ScriptTarget.Latest, true)

/** Calls `visit` with every node of a tree. */
export function walk(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node)
  node.forEachChild((child) => walk(child, visit))
}

const testFunctions: ReadonlySet<string> = new Set(['test', 'testEach'])

const isTest = ({ expression }: ts.CallExpression): boolean =>
  ts.isPropertyAccessExpression(expression)
    ? testFunctions.has(expression.name.text)
    : ts.isIdentifier(expression) && testFunctions.has(expression.text)

/** Whether a test's options turn it off, such as `{ skip: true }` and `{ todo: 'later' }`. */
const isOff = (call: ts.CallExpression): boolean =>
  call.arguments.some(
    (argument) =>
      ts.isObjectLiteralExpression(argument) &&
      argument.properties.some(
        ({ name }) => name !== undefined && ['skip', 'todo'].includes(name.getText()),
      ),
  )

/** The names of the tests in a file: calls of `t.test` and `testEach` that run something. */
export function testNames(text: string): ReadonlySet<string> {
  const names = new Set<string>()
  walk(parse(text), (node) => {
    if (!ts.isCallExpression(node) || !isTest(node) || isOff(node)) return
    const [name] = node.arguments
    const runs = node.arguments.slice(1).some((argument) => ts.isFunctionLike(argument))
    if (name !== undefined && ts.isStringLiteralLike(name) && runs) names.add(name.text)
  })
  return names
}
