/** Every word of the player, so that another language is another table. */
const en = {
  graph: "Autograd graph, step by step", first: "First step (Home)", prev: "Previous step (←)", next: "Next step (→)",
  last: "Last step (End)", play: "Play (space)", pause: "Pause (space)", step: "Step", code: "code", of: "of",
  check: "Check my prediction", right: "Right", wrong: "Not right", stop: ". ", missed: "Missed", again: "Try again", copy: "Copy", copied: "Copied", keep: "Your answer in Python:",
  toCell: "Write it into the answer cell", inCell: "Written. Run the answer cell, then the check below it.", byHand: "To be copied into the answer cell:",
  none: "None of them", chooseFirst: "Choose an answer first.", fillFirst: "Fill in every version first: whole numbers.",
  chooseOrNone: "Choose an answer first, or tick “None of them”.",
  uncounted: "No kernel holds this picture: no answer counts. Run its cell again.",
  hidden: "The rest is hidden until you answer.", picked: "Your pick:", version: "version",
  start: "Start", forward: "Forward", inplace: "In-place", backward: "Backward", error: "Error", silent: "Wrong",
  leaf: "leaf tensor", tensor: "tensor", plain: "tensor, needs no gradient", node: "Function", write: "in-place write", op: "not recorded",
  group: "several Functions", whole: "whole graph", where: "where you are", search: "Search the graph", near: "Neighbours only (f)",
  path: "Follow the gradient (g)", selectFirst: "Click a card or a Function first", later: "not there yet: step", less: "Smaller (-)", more: "Larger (+)", fit: "All of it (0), or readable (1)", full: "Full screen", save: "Save the picture as a file",
  passes: "Pass of the loop", prevPass: "Previous pass (Shift+←)", nextPass: "Next pass (Shift+→)", loss: "loss", found: "something was found here", finding: "finding", foundIn: "found in", foundElse: "something was found in", ladder: "pass by pass",
  walk: "→ next step, ← back · click a box with + to open it · click anything, then g: the gradient's way to it",
  numbers: "one by one", corner: "kept:", prevSlice: "Previous slice (Page Up)", nextSlice: "Next slice (Page Down)", nextBroken: "Next NaN or Inf (n)",
  copyFix: "Copy the fix", tryFix: "Try the fix", trying: "Running again with it …", before: "As it was", after: "With the fix", compared: "With and without the fix",
  tryTitle: "Run this notebook's cells so far again with it in a new process", noKernel: "No kernel answers: copy the fix instead.",
  broken: "This picture is damaged, or of another version of seegrad. Run its cell again.",
};
export type Words = typeof en;
const zh_CN: Words = {
  graph: "自动求导图，逐步演示", first: "第一步（Home）", prev: "上一步（←）", next: "下一步（→）",
  last: "最后一步（End）", play: "播放（空格）", pause: "暂停（空格）", step: "步骤", code: "代码", of: "/",
  check: "提交我的预测", right: "正确", wrong: "不对", stop: "。", missed: "漏选", again: "再试一次", copy: "复制", copied: "已复制", keep: "你的答案写成 Python：",
  toCell: "写入答案单元格", inCell: "已写入。请运行答案单元格，再运行它下面的检查。", byHand: "请复制到答案单元格：",
  none: "一个也没有", chooseFirst: "请先选择一个答案。", fillFirst: "请先填写每个版本，都是整数。",
  chooseOrNone: "请先选择一个答案，或勾选“一个也没有”。",
  uncounted: "没有内核持有这幅图：答案暂不计入。请重新运行它的单元格。",
  hidden: "作答之后才显示其余部分。", picked: "你选的是：", version: "版本",
  start: "开始", forward: "前向", inplace: "原地写入", backward: "反向", error: "报错", silent: "静默出错",
  leaf: "叶子张量", tensor: "张量", plain: "张量，不需要梯度", node: "Function", write: "原地写入", op: "未记录",
  group: "多个 Function", whole: "整个图", where: "当前位置", search: "在图中搜索", near: "只看相邻部分（f）",
  path: "跟随梯度（g）", selectFirst: "请先点击一张卡片或一个 Function", later: "尚未出现：步骤", less: "缩小（-）", more: "放大（+）", fit: "显示全部（0），或恢复可读大小（1）", full: "全屏", save: "把图保存为文件",
  passes: "循环的第几遍", prevPass: "上一遍（Shift+←）", nextPass: "下一遍（Shift+→）", loss: "损失", found: "这里发现了问题", finding: "发现", foundIn: "发现于", foundElse: "发现问题的遍次", ladder: "逐遍变化",
  walk: "→ 下一步，← 上一步 · 点击带 + 的方框将其展开 · 点击任意一处再按 g：查看梯度到它的路径",
  numbers: "逐个查看", corner: "已保留：", prevSlice: "上一个切片（Page Up）", nextSlice: "下一个切片（Page Down）", nextBroken: "下一个 NaN 或 Inf（n）",
  copyFix: "复制修改", tryFix: "试试修改", trying: "正在用它重新运行……", before: "原来", after: "修改后", compared: "修改前后对比",
  tryTitle: "在新进程中用它重新运行本笔记本到此为止的单元格", noKernel: "没有内核应答：请改为复制修改。",
  broken: "这幅图已损坏，或属于另一版本的 seegrad。请重新运行它的单元格。",
};
const tables: Record<string, Words> = { en, zh_CN };
export const words = (lang: string): Words => tables[lang] ?? en;
/** A line of the code that is shown, as a sentence names it: one of another file has the file's name beside it. */
export const lineIn = (lang: string): RegExp => (lang === "zh_CN" ? /((?<![\w\].] )第 \d+ 行)/ : /(\bline \d+\b(?! of ))/i);
